package bundle

import (
	"fmt"
	"path"
	"strings"
)

// A helmIgnore is the patterns of a .helmignore: what Helm leaves out of a chart
// that it reads from a directory. Helm's own rules, pkg/ignore: the first
// pattern that matches decides; one with "!" leaves out what it does not match.
type helmIgnore []helmPattern

type helmPattern struct {
	glob    string
	negate  bool
	dirOnly bool
	rooted  bool // matched against the whole path, not only its last part
}

// parseHelmIgnore reads a .helmignore. Hidden files in templates/ are always
// left out. Where a pattern is wrong, bad is its line.
func parseHelmIgnore(data []byte) (list helmIgnore, bad int, err error) {
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Contains(line, "**") {
			return nil, number, fmt.Errorf("** is not supported by Helm")
		}
		if _, err := path.Match(line, "abc"); err != nil {
			return nil, number, fmt.Errorf("this is not a valid pattern")
		}
		if len(list) > ignoreGlobs {
			return nil, number, fmt.Errorf("there are too many patterns")
		}
		list = append(list, helmPatternOf(line))
	}
	return append(list, helmPatternOf("templates/.?*")), 0, nil
}

func helmPatternOf(line string) helmPattern {
	var p helmPattern
	line, p.negate = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.rooted = strings.Contains(line, "/")
	p.glob = strings.TrimPrefix(line, "/")
	return p
}

// ignored reports whether a path relative to the chart is left out.
func (h helmIgnore) ignored(name string, dir bool) bool {
	for _, p := range h {
		subject := name
		if !p.rooted {
			subject = path.Base(name)
		}
		hit, err := path.Match(p.glob, subject)
		hit = hit && err == nil
		switch {
		case p.negate && (p.dirOnly && !dir || !hit):
			return true
		case p.negate, p.dirOnly && !dir:
		case hit:
			return true
		}
	}
	return false
}
