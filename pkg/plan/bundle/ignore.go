package bundle

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
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
	file  string         // in the bundle
	names map[string]int // exact; with the line
	dirs  map[string]int // exact, directories only: written as "name/*"
	globs []string
	lines []int // of globs
}

// An ignoring is a line of a .fleetignore that matches something.
type ignoring struct {
	file    string // in the bundle
	line    int    // 0: none does
	pattern string
}

// trailing is white space at the end of a line that is not escaped.
var trailing = regexp.MustCompile(`([^\\])\s+$`)

// parseIgnore reads a .fleetignore: one pattern per line, empty lines and lines
// that start with # are skipped. Where there is a fault, bad is the line and why
// says what it is.
func parseIgnore(data []byte) (list ignores, bad int, why string) {
	list = ignores{names: map[string]int{}, dirs: map[string]int{}}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		line = trailing.ReplaceAllString(line, "$1")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.LastIndex(line, "/*") > 0 {
			list.dirs[strings.TrimSuffix(line, "/*")] = number
			continue
		}
		if _, err := path.Match(line, ""); err != nil {
			return list, number, "this is not a valid pattern"
		}
		if !strings.ContainsAny(line, `*?[\`) {
			list.names[line] = number
			continue
		}
		list.lines = append(list.lines, number)
		if list.globs = append(list.globs, line); len(list.globs) > ignoreGlobs {
			return list, number, "there are too many patterns"
		}
	}
	return list, 0, ""
}

// matchingLine returns the line by which a last part of a path is left out.
func (ig ignores) matchingLine(name string, dir bool) ignoring {
	if line := ig.names[name]; line > 0 {
		return ignoring{ig.file, line, name}
	}
	if line := ig.dirs[name]; line > 0 && dir {
		return ignoring{ig.file, line, name + "/*"}
	}
	for i, glob := range ig.globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			return ignoring{ig.file, ig.lines[i], glob}
		}
	}
	return ignoring{}
}

// ignored is the line by which a last part of a path is left out.
func ignored(lists []ignores, name string, dir bool) ignoring {
	for _, l := range lists {
		if by := l.matchingLine(name, dir); by.line > 0 {
			return by
		}
	}
	return ignoring{}
}

// nothingLeft begins the message of such a finding.
const nothingLeft = "nothing is left to deploy: "

// hintIgnored is the hint for a .fleetignore that leaves nothing.
const hintIgnored = "remove the line, or remove the directory to remove the bundle"

// maxIgnoring is how many lines of .fleetignore are named beside the first.
const maxIgnoring = 3

// noteIgnored keeps the line that leaves out an entry of the bundle's own directory, where
// the entry holds what would be deployed.
func (c *collector) noteIgnored(by ignoring, target, name string, dir bool) {
	a := c.a
	if c.chart != nil || slices.Contains(a.ignoring, by) {
		return
	}
	some := !dir && isDeployed(name)
	if dir {
		a.walkBelow(target, "", func(p string, dir bool) { some = some || !dir && isDeployed(path.Join(name, p)) })
	}
	if some {
		a.ignoring = append(a.ignoring, by)
	}
}

// isDeployed reports whether a file of a bundle may be, or be rendered to, objects. The files
// that say how a bundle or chart is deployed are none.
func isDeployed(name string) bool {
	switch base := path.Base(name); {
	case base == chartFile, base == valuesFile, base == schemaFile, slices.Contains(fleetyaml.Names, base):
		return false
	case slices.Contains(kustomizations, base), path.Ext(base) == ".tgz":
		return true
	}
	return isManifest(name)
}

// allIgnored warns of files .fleetignore that leave nothing to deploy.
func (a *assembly) allIgnored() {
	if len(a.ignoring) == 0 || a.wanted || a.full || slices.ContainsFunc(a.files, func(f file) bool { return isDeployed(f.name) }) {
		return
	}
	first := a.ignoring[0]
	said := fmt.Sprintf("%q ignores all manifests", printable.Line(position.ShortName(first.pattern)))
	if more := a.ignoring[1:]; len(more) > 0 {
		var places []string
		for _, by := range more[:min(len(more), maxIgnoring)] {
			places = append(places, fmt.Sprintf("%s:%d", path.Join(a.dir.Path, by.file), by.line))
		}
		said = fmt.Sprintf("%q ignores the manifests, and so do %s", printable.Line(position.ShortName(first.pattern)), strings.Join(places, " and "))
	}
	a.addFinding(finding.Finding{
		Path: path.Join(a.dir.Path, first.file), Line: first.line, Severity: finding.Warning, Rule: finding.RuleEmpty,
		Message: nothingLeft + said, Hint: hintIgnored,
	})
}
