package bundle

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

const (
	// maxNear is for how many paths another one is looked for, and nearAmong in
	// directories with how many entries at most.
	maxNear   = 3
	nearAmong = 1000
	// nameLimit is the longest name that is compared.
	nameLimit = 255
)

// An Absent is a path, or pattern, of a GitRepo that leads to no directory.
type Absent struct {
	Path string // as the GitRepo has it
	Hint string // what would help, or empty
	File bool   // it leads to a file
	// Found is the warning about it.
	Found finding.Finding
}

// Absent returns the paths that led to no directory when Dirs was called last.
func (d *Discovery) Absent() []Absent { return slices.Clone(d.absent) }

// RefuseAbsent returns the set in which every path that leads to no directory is an
// error, with its hint, and no warning.
func (s Set) RefuseAbsent() Set {
	s.Findings = slices.Clone(s.Findings)
	for _, a := range s.Absent {
		for i, f := range s.Findings {
			if f == a.Found {
				f.Severity, f.Rule, f.Hint = finding.Error, finding.RuleFile, a.Hint
				s.Findings[i] = f
			}
		}
	}
	return s
}

// addMissingPath notes a path that leads to no directory.
func (s *survey) addMissingPath(p string, f finding.Finding, isFile bool) {
	s.found = append(s.found, f)
	hint := f.Hint
	if hint == "" && !isFile && len(s.absent) < maxNear {
		if near := s.nearestPath(f.Path); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
	s.absent = append(s.absent, Absent{Path: p, Hint: hint, File: isFile, Found: f})
}

// nearestPath is a path with another name in the place of the first one that is not
// there, or empty.
func (s *survey) nearestPath(p string) string {
	at, rest := ".", p
	for rest != "" {
		step, tail, _ := strings.Cut(rest, "/")
		if isPattern(step) || len(step) > nameLimit {
			return ""
		}
		if s.isDir(path.Join(at, step)) {
			at, rest = path.Join(at, step), tail
			continue
		}
		entries, err := fs.ReadDir(s.root, at)
		if err != nil || len(entries) > nearAmong {
			return ""
		}
		var names []string
		for _, e := range entries {
			if e.IsDir() && !isHidden(e.Name()) {
				names = append(names, e.Name())
			}
		}
		name := spelling.Nearest(step, names)
		if near := path.Join(at, name, tail); name != "" && (isPattern(tail) || s.isDir(near)) {
			return near
		}
		return ""
	}
	return ""
}

func (s *survey) isDir(name string) bool {
	info, err := fs.Stat(s.root, name)
	return err == nil && info.IsDir()
}

func isPattern(p string) bool { return strings.ContainsAny(p, `*?[\`) }
