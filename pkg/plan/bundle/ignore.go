package bundle

import (
	"path"
	"regexp"
	"strings"
)

// ignoreFile is the name of the files that say what is left out of a bundle.
const ignoreFile = ".fleetignore"

// A pattern leaves out what it matches, in its directory and all below.
type pattern struct {
	name    string // matched against the last part of a path
	dirOnly bool   // written as "name/*": the directory of exactly that name
}

// trailing is white space at the end of a line that is not escaped.
var trailing = regexp.MustCompile(`([^\\])\s+$`)

// parseIgnore reads a .fleetignore: one pattern per line, empty lines and lines
// that start with # are skipped. bad is the number of the first line that is
// not a pattern, or 0.
func parseIgnore(data []byte) (list []pattern, bad int) {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		line = trailing.ReplaceAllString(line, "$1")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if i := strings.Index(line, "/*"); i > 0 {
			list = append(list, pattern{name: strings.TrimSuffix(line, "/*"), dirOnly: true})
			continue
		}
		if _, err := path.Match(line, ""); err != nil {
			if bad == 0 {
				bad = number
			}
			continue
		}
		list = append(list, pattern{name: line})
	}
	return list, bad
}

// ignored tells whether any of the patterns matches the last part of a path.
func ignored(list []pattern, name string, dir bool) bool {
	for _, p := range list {
		if p.dirOnly {
			if dir && p.name == name {
				return true
			}
			continue
		}
		if ok, err := path.Match(p.name, name); ok && err == nil {
			return true
		}
	}
	return false
}
