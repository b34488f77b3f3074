package bundle

import (
	"path"
	"regexp"
	"strings"
)

const (
	// ignoreFile is the name of the files that say what is left out of a bundle.
	ignoreFile = ".fleetignore"
	// ignoreBytes is how large one may be.
	ignoreBytes = 256 << 10
	// ignoreGlobs is how many of its patterns may be more than a name.
	ignoreGlobs = 1000
)

// ignores leave out what they match, in their directory and all below.
type ignores struct {
	names map[string]bool // exact
	dirs  map[string]bool // exact, directories only: written as "name/*"
	globs []string
}

// trailing is white space at the end of a line that is not escaped.
var trailing = regexp.MustCompile(`([^\\])\s+$`)

// parseIgnore reads a .fleetignore: one pattern per line, empty lines and lines
// that start with # are skipped. Where there is a fault, bad is the line and why
// says what it is.
func parseIgnore(data []byte) (list ignores, bad int, why string) {
	list = ignores{names: map[string]bool{}, dirs: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		line = trailing.ReplaceAllString(line, "$1")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.LastIndex(line, "/*") > 0 {
			list.dirs[strings.TrimSuffix(line, "/*")] = true
			continue
		}
		if _, err := path.Match(line, ""); err != nil {
			return list, number, "this is not a valid pattern"
		}
		if !strings.ContainsAny(line, `*?[\`) {
			list.names[line] = true
			continue
		}
		if list.globs = append(list.globs, line); len(list.globs) > ignoreGlobs {
			return list, number, "there are too many patterns"
		}
	}
	return list, 0, ""
}

// match tells whether a last part of a path is left out.
func (l ignores) match(name string, dir bool) bool {
	if l.names[name] || dir && l.dirs[name] {
		return true
	}
	for _, glob := range l.globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			return true
		}
	}
	return false
}

func ignored(lists []ignores, name string, dir bool) bool {
	for _, l := range lists {
		if l.match(name, dir) {
			return true
		}
	}
	return false
}
