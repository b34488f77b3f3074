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

const (
	// maxDirs bounds how many directories are looked at for all paths, each
	// counted once for each path and link that leads to it.
	maxDirs = 250_000
	// maxEntries bounds what is listed to find out what patterns match.
	maxEntries = 500_000
	// maxDepth bounds how deep they are nested.
	maxDepth = 256
)

var errTooMany = fmt.Errorf("there are more than %d directories", maxDirs)

// Discover finds the directories that are bundles below paths, which are shell
// patterns relative to the root; no paths are the root itself.
//
// A directory that a path names is a bundle if it has a fleet.yaml, or if there
// is YAML in or below it that no deeper fleet.yaml claims. Every directory
// below it that has a fleet.yaml is a bundle too. .git is left out.
// A symbolic link is followed in the directories of a path, and at its end where the
// path names the link. A pattern in the last part of a path matches no link.
//
// Dirs are sorted by path, each once. A path that matches no directory is a
// warning, one that cannot be read is an error. A directory that a path names
// and in which there is no bundle is a Dir that is Bare.
func Discover(root fs.FS, paths []string) ([]Dir, []finding.Finding) {
	var d Discovery
	return d.Dirs(root, paths, nil)
}

// A Discovery finds the bundles of a tree and remembers what it found, so that
// the next time directories whose hash is the same are not read. The zero value
// is ready; it is for one goroutine.
type Discovery struct {
	previous map[string]*node // by path of what a GitRepo names
	absent   []Absent
}

// Dirs returns the bundles that entries list, in the order of the list, where a GitRepo
// lists its bundles itself; without entries those below paths, as Discover finds them.
func (d *Discovery) Dirs(root fs.FS, paths []string, entries []fleet.BundlePath) ([]Dir, []finding.Finding) {
	s := &survey{root: root, seen: map[Dir]bool{}, previous: d.previous, known: map[string]*node{}}
	s.hasher, _ = root.(Hasher)
	if len(entries) > 0 {
		for _, e := range entries {
			s.addPath(e)
		}
	} else {
		if len(paths) == 0 {
			paths = []string{"."}
		}
		for _, p := range paths {
			if !s.full {
				s.pattern(p)
			}
		}
		slices.SortFunc(s.dirs, func(a, b Dir) int { return strings.Compare(a.Path, b.Path) })
	}
	d.previous, d.absent = s.known, s.absent
	return s.dirs, s.found
}

// A node is what is known of a directory and all below it. It follows from the
// directory's hash alone, if it has one.
type node struct {
	hash     string // empty: not certain
	options  bool   // has a fleet.yaml
	yaml     bool   // has YAML in it, or in a directory below that no fleet.yaml claims
	bundles  int    // directories with a fleet.yaml, this one included
	dirs     int    // directories, this one included
	height   int
	children []*node
	name     string // last part of the path
}

type survey struct {
	root            fs.FS
	hasher          Hasher
	seen            map[Dir]bool
	previous, known map[string]*node
	dirs            []Dir
	found           []finding.Finding
	absent          []Absent
	looked          int // directories
	listed          int // entries
	full            bool
}

func (s *survey) addError(path, rule, message string) {
	s.found = append(s.found, finding.Finding{Path: path, Severity: finding.Error, Rule: rule, Message: message})
}

func (s *survey) addWarning(path, message string) {
	s.found = append(s.found, finding.Finding{Path: path, Severity: finding.Warning, Rule: finding.RuleEmpty, Message: message})
}

// noDirectory is why a path is no directory of the repository.
func noDirectory(name string, isFile bool) string {
	if isFile {
		return fmt.Sprintf("it is a file, and paths name directories: write %q", path.Dir(name))
	}
	return "the repository has no such directory"
}

func (s *survey) addPath(e fleet.BundlePath) {
	base, ok := cleanPath(e.Base)
	if !ok {
		s.addError(e.Base, finding.RuleOutside, "the path leads out of the repository")
		return
	}
	if info, err := fs.Stat(s.root, base); err != nil || !info.IsDir() {
		s.addError(base, finding.RuleFile, noDirectory(base, err == nil))
		return
	}
	if e.Options != "" {
		if p := path.Join(base, e.Options); !fs.ValidPath(p) {
			s.addError(p, finding.RuleOutside, "the path leads out of the repository")
			return
		}
	}
	if isHidden(path.Base(base)) {
		s.addWarning(base, "hidden directories are not deployed")
		s.addDir(Dir{Path: base, Options: e.Options, Bare: true})
		return
	}
	s.addDir(Dir{Path: base, Options: e.Options})
}

func (s *survey) pattern(p string) {
	if f, ok := matchesNothing(p); ok {
		s.addMissingPath(p, f, false)
		return
	}
	pattern, ok := cleanPath(p)
	if !ok {
		s.addError(p, finding.RuleOutside, "the path leads out of the repository")
		return
	}
	matches, err := fs.Glob(listing{s}, pattern)
	switch {
	case err != nil:
		s.addError(p, finding.RuleValue, "the path is not a valid pattern")
		return
	case s.full:
		s.addError(p, finding.RuleTooLarge, fmt.Sprintf("the paths match too much: there are more than %d files and directories where they may", maxEntries))
		return
	}
	hit, isFile := false, false
	for _, m := range matches {
		if s.full {
			return
		}
		info, err := fs.Stat(s.root, m)
		if err != nil || !info.IsDir() || m != pattern && !s.isDirectory(m) {
			isFile = isFile || err == nil && m == pattern
			continue
		}
		hit = true
		err = s.addTopDirectory(m, m == pattern)
		switch {
		case errors.Is(err, errTooMany):
			s.full = true
			s.addError(m, finding.RuleTooLarge, err.Error())
		case err != nil:
			s.addError(m, finding.RuleFile, err.Error())
		}
	}
	if !hit {
		s.addMissingPath(p, finding.Finding{
			Path: pattern, Severity: finding.Warning, Rule: finding.RuleEmpty, Message: noDirectory(pattern, isFile),
		}, isFile)
	}
}

// matchesNothing reports whether a path looks as if it matched something but matches
// nothing in rancher/fleet. To deploy more than rancher/fleet does would surprise users who
// come from there.
func matchesNothing(p string) (finding.Finding, bool) {
	f := finding.Finding{Path: p, Severity: finding.Warning, Rule: finding.RuleEmpty}
	switch {
	case strings.Trim(p, "/") == "":
		f.Path = "."
		f.Message, f.Hint = fmt.Sprintf("path %q is empty and matches nothing", p), `write "." for the whole repository`
	case strings.HasSuffix(p, "/") && isPattern(p):
		f.Message, f.Hint = "a pattern that ends with a slash matches nothing", "leave the slash out"
	default:
		return finding.Finding{}, false
	}
	return f, true
}

// A listing is the tree as patterns are matched with it: links in a pattern's
// way can make a small one endless.
type listing struct{ s *survey }

func (l listing) Open(name string) (fs.File, error)     { return l.s.root.Open(name) }
func (l listing) Stat(name string) (fs.FileInfo, error) { return fs.Stat(l.s.root, name) }

func (l listing) ReadDir(name string) ([]fs.DirEntry, error) {
	if l.s.full {
		return nil, errTooMany
	}
	entries, err := fs.ReadDir(l.s.root, name)
	l.s.listed += 1 + len(entries)
	l.s.full = l.s.listed > maxEntries
	return entries, err
}

// addTopDirectory handles a directory that a path means; literal reports that it is that path.
func (s *survey) addTopDirectory(dir string, literal bool) error {
	n, err := s.surveyDirectory(dir, s.previous[dir], 0)
	if err != nil {
		return err
	}
	if s.looked += n.dirs; s.looked > maxDirs {
		return errTooMany
	}
	s.known[dir] = n
	own := n.options || n.yaml
	if isHidden(path.Base(dir)) {
		own = false
		s.addWarning(dir, "hidden directories are not deployed")
	}
	if own {
		s.addDir(Dir{Path: dir})
	}
	before := len(s.dirs)
	s.addBundleDirs(dir, n)
	if !own && len(s.dirs) == before && n.bundles == 0 {
		s.addDir(Dir{Path: dir, Bare: true})
		if literal && !isHidden(path.Base(dir)) {
			s.addWarning(dir, "there is nothing to deploy in this directory")
		}
	}
	return nil
}

// addBundleDirs adds the directories with a fleet.yaml below one. Hidden ones are
// nothing that is deployed, but what is below them may be.
func (s *survey) addBundleDirs(dir string, n *node) {
	for _, sub := range n.children {
		if sub.bundles == 0 {
			continue
		}
		p := path.Join(dir, sub.name)
		if sub.options && !isHidden(sub.name) {
			s.addDir(Dir{Path: p})
		}
		s.addBundleDirs(p, sub)
	}
}

func (s *survey) addDir(dir Dir) {
	if !s.seen[dir] {
		s.seen[dir] = true
		s.dirs = append(s.dirs, dir)
	}
}

// surveyDirectory looks at a directory and all below it, as far as before does not know
// it.
func (s *survey) surveyDirectory(dir string, before *node, depth int) (*node, error) {
	hash := ""
	if s.hasher != nil && (depth > 0 || s.isDirectory(dir)) {
		hash, _ = s.hasher.Hash(dir)
	}
	if before != nil && hash != "" && before.hash == hash && depth+before.height <= maxDepth {
		return before, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("directories are nested deeper than %d", maxDepth)
	}
	entries, err := fs.ReadDir(s.root, dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", causeOf(err))
	}
	n := &node{hash: hash, name: path.Base(dir), dirs: 1}
	for _, e := range entries {
		if err := s.surveyEntry(n, dir, e, before, depth); err != nil {
			return nil, err
		}
	}
	if n.options {
		n.bundles++
	}
	return n, nil
}

// isDirectory reports whether a path is a directory and not a link to one, whose hash
// says nothing about what is in it.
func (s *survey) isDirectory(dir string) bool {
	info, err := fs.Lstat(s.root, dir)
	return err == nil && info.IsDir()
}

// surveyEntry adds to n, the node of dir, what its entry e contributes.
func (s *survey) surveyEntry(n *node, dir string, e fs.DirEntry, before *node, depth int) error {
	switch ext := path.Ext(e.Name()); {
	case e.IsDir() && e.Name() == ".git":
	case e.IsDir():
		var known *node
		if before != nil {
			known = before.child(e.Name())
		}
		sub, err := s.surveyDirectory(path.Join(dir, e.Name()), known, depth+1)
		if errors.Is(err, errTooMany) {
			return err
		}
		if err != nil { // the other directories are read nevertheless
			s.addError(path.Join(dir, e.Name()), finding.RuleFile, err.Error())
			n.hash = ""
			return nil
		}
		if sub.hash == "" {
			n.hash = ""
		}
		n.children = append(n.children, sub)
		n.bundles += sub.bundles
		if n.dirs += sub.dirs; n.dirs > maxDirs {
			return errTooMany
		}
		n.height = max(n.height, sub.height+1)
		n.yaml = n.yaml || sub.yaml && !sub.options
	case slices.Contains(fleetyaml.Names, e.Name()):
		n.yaml = true
		if e.Type() == fs.ModeSymlink { // what it leads to is not part of the hash
			n.hash = ""
		}
		_, err := fs.Stat(s.root, path.Join(dir, e.Name()))
		n.options = n.options || !errors.Is(err, fs.ErrNotExist) // Assemble says what is wrong with it
	case ext == ".yaml" || ext == ".yml":
		n.yaml = true
	}
	return nil
}

// child returns the node of a directory below n, or nil.
func (n *node) child(name string) *node {
	i, ok := slices.BinarySearchFunc(n.children, name, func(n *node, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return nil
	}
	return n.children[i]
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") && name != "." }

// causeOf is an error without operation and path, which findings say themselves.
func causeOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
