package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// maxDirs bounds how many directories are looked at for one list of paths.
const maxDirs = 100_000

// Discover finds the directories that are bundles below paths, which are shell
// patterns relative to the root; no paths are the root itself.
//
// A directory that a path names is a bundle if it has a fleet.yaml, or if there
// is YAML in or below it that no deeper fleet.yaml claims. Every directory
// below it that has a fleet.yaml is a bundle too. .git is left out, and so is
// YAML in hidden directories, which is never deployed.
//
// Dirs are sorted by path, each once. A path that matches no directory is a
// warning, one that cannot be read is an error.
func Discover(root fs.FS, paths []string) ([]Dir, []finding.Finding) {
	d := &discovery{root: root, seen: map[string]bool{}}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, p := range paths {
		d.pattern(p)
	}
	slices.SortFunc(d.dirs, func(a, b Dir) int { return strings.Compare(a.Path, b.Path) })
	return d.dirs, d.found
}

// Listed checks the directories of a GitRepo that lists its bundles itself. The
// order is that of the list.
func Listed(root fs.FS, entries []fleet.BundlePath) ([]Dir, []finding.Finding) {
	d := &discovery{root: root, seen: map[string]bool{}}
	for _, e := range entries {
		base, ok := clean(e.Base)
		if !ok {
			d.fail(e.Base, finding.RuleOutside, "the path leads out of the repository")
			continue
		}
		if info, err := fs.Stat(root, base); err != nil || !info.IsDir() {
			d.fail(base, finding.RuleFile, "the repository has no such directory")
			continue
		}
		if e.Options != "" {
			if p := path.Join(base, e.Options); !fs.ValidPath(p) {
				d.fail(p, finding.RuleOutside, "the path leads out of the repository")
				continue
			}
		}
		if key := base + "\x00" + e.Options; !d.seen[key] {
			d.seen[key] = true
			d.dirs = append(d.dirs, Dir{Path: base, Options: e.Options})
		}
	}
	return d.dirs, d.found
}

type discovery struct {
	root   fs.FS
	seen   map[string]bool // bundles
	dirs   []Dir
	found  []finding.Finding
	visits int
}

func (d *discovery) fail(path, rule, message string) {
	d.found = append(d.found, finding.Finding{Path: path, Severity: finding.Error, Rule: rule, Message: message})
}

func (d *discovery) pattern(p string) {
	pattern, ok := clean(p)
	if !ok {
		d.fail(p, finding.RuleOutside, "the path leads out of the repository")
		return
	}
	matches, err := fs.Glob(d.root, pattern)
	if err != nil {
		d.fail(p, finding.RuleValue, "the path is not a valid pattern")
		return
	}
	hit := false
	for _, m := range matches {
		info, err := fs.Stat(d.root, m)
		if err != nil || !info.IsDir() {
			continue
		}
		hit = true
		if err := d.top(m); err != nil {
			d.fail(m, finding.RuleFile, err.Error())
		}
	}
	if !hit {
		d.found = append(d.found, finding.Finding{
			Path: pattern, Severity: finding.Warning, Rule: finding.RuleEmpty, Message: "the repository has no such directory",
		})
	}
}

// top handles a directory that a path names.
func (d *discovery) top(dir string) error {
	own, err := d.ownsYAML(dir, true)
	if err != nil {
		return err
	}
	if own {
		d.add(dir)
	}
	return d.below(dir, 0)
}

// below adds the directories with a fleet.yaml below one.
func (d *discovery) below(dir string, depth int) error {
	entries, err := d.readDir(dir, depth)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == ".git" {
			continue
		}
		sub := path.Join(dir, e.Name())
		if has, err := d.hasOptions(sub); err != nil {
			return err
		} else if has {
			d.add(sub)
		}
		if err := d.below(sub, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// ownsYAML tells whether a directory is a bundle without being asked for: a
// directory with a fleet.yaml at the top is, one further down is a bundle of
// its own.
func (d *discovery) ownsYAML(dir string, top bool) (bool, error) {
	has, err := d.hasOptions(dir)
	if err != nil || has {
		return has && top, err
	}
	entries, err := d.readDir(dir, 0)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".")
		switch ext := path.Ext(e.Name()); {
		case hidden:
		case e.IsDir():
			if own, err := d.ownsYAML(path.Join(dir, e.Name()), false); own || err != nil {
				return own, err
			}
		case ext == ".yaml" || ext == ".yml":
			return true, nil
		}
	}
	return false, nil
}

func (d *discovery) add(dir string) {
	if !d.seen[dir] {
		d.seen[dir] = true
		d.dirs = append(d.dirs, Dir{Path: dir})
	}
}

func (d *discovery) readDir(dir string, depth int) ([]fs.DirEntry, error) {
	if d.visits++; d.visits > maxDirs || depth > maxDirs {
		return nil, fmt.Errorf("there are more than %d directories", maxDirs)
	}
	entries, err := fs.ReadDir(d.root, dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	return entries, nil
}

// hasOptions tells whether a directory has a fleet.yaml or fleet.yml.
func (d *discovery) hasOptions(dir string) (bool, error) {
	for _, name := range fleetyaml.Names {
		_, err := fs.Stat(d.root, path.Join(dir, name))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%s cannot be read: %w", name, cause(err))
		}
	}
	return false, nil
}

// cause is an error without operation and path, which findings say themselves.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
