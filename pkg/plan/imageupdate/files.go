package imageupdate

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	// maxEntries bounds what is listed to find files.
	maxEntries = 500_000
	// maxChanges is how many values one commit replaces.
	maxChanges = 10_000
)

// Reasons of errors about files.
const (
	ReasonInvalidPath = "InvalidPath"
	ReasonTooLarge    = "TooLarge"
)

// A Rewrite is what a commit changes, and what it leaves although there are markers.
type Rewrite struct {
	Files   map[string][]byte // new contents by path
	Changes []Change
	// Left are files with markers that stay as they are: their paths, and why.
	Left []string
}

// RewriteTree replaces the marked values in all YAML files below the paths of a GitRepo,
// as RewriteFile does. Symbolic links are not followed, and .git, submodules and files that
// hold no marker are not touched.
//
// Errors are reconcile.Terminal: InvalidPath, for a path that leads out of the repository
// or is no pattern; TooLarge.
func RewriteTree(root fs.FS, spec fleet.GitRepoSpec, values Values) (Rewrite, error) {
	w := &walk{root: root, values: values, seen: map[string]bool{}, out: Rewrite{Files: map[string][]byte{}}}
	for _, p := range paths(spec) {
		if err := w.pattern(p); err != nil {
			return Rewrite{}, err
		}
	}
	return w.out, nil
}

// paths are the patterns of the directories that a GitRepo deploys.
func paths(spec fleet.GitRepoSpec) []string {
	if len(spec.Bundles) > 0 {
		var list []string
		for _, b := range spec.Bundles {
			list = append(list, b.Base)
		}
		return list
	}
	if len(spec.Paths) == 0 {
		return []string{"."}
	}
	return spec.Paths
}

type walk struct {
	root   fs.FS
	values Values
	seen   map[string]bool
	listed int
	out    Rewrite
}

// pattern rewrites the files below all directories that one path of the spec matches.
func (w *walk) pattern(p string) error {
	clean := path.Clean(strings.TrimLeft(p, "/"))
	if !fs.ValidPath(clean) {
		return reconcile.TerminalError(ReasonInvalidPath, fmt.Errorf("path %q resolves outside the repository root", p))
	}
	matches, err := fs.Glob(listing{w}, clean)
	switch {
	case errors.Is(err, path.ErrBadPattern):
		return reconcile.TerminalError(ReasonInvalidPath, fmt.Errorf("path %q is not a valid pattern", p))
	case w.listed > maxEntries:
		return tooMuch()
	}
	for _, m := range matches {
		if !w.hasLinkOrGit(m) {
			if err := w.visit(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func tooMuch() error {
	return reconcile.TerminalError(ReasonTooLarge, fmt.Errorf("the paths match more than %d files and directories", maxEntries))
}

// hasLinkOrGit reports whether a part of a path is a symbolic link or git's own.
func (w *walk) hasLinkOrGit(name string) bool {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		info, err := fs.Lstat(w.root, at)
		if err != nil || part == ".git" || info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// visit rewrites a file, or all below a directory.
func (w *walk) visit(top string) error {
	return fs.WalkDir(w.root, top, func(name string, d fs.DirEntry, err error) error {
		if w.listed++; w.listed > maxEntries {
			return tooMuch()
		}
		switch {
		case err != nil:
			return fmt.Errorf("read %q: %w", name, err)
		case d.IsDir() && (d.Name() == ".git" || w.seen[name]):
			return fs.SkipDir
		case d.IsDir(), w.seen[name]:
			w.seen[name] = true
			return nil
		}
		w.seen[name] = true
		if ext := path.Ext(name); !d.Type().IsRegular() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		return w.file(name)
	})
}

// file rewrites one file.
func (w *walk) file(name string) error {
	text, err := fs.ReadFile(w.root, name)
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	rewritten, changes, err := RewriteFile(text, w.values)
	switch {
	case err != nil:
		w.out.Left = append(w.out.Left, fmt.Sprintf("%s: %v", name, err))
		return nil
	case len(changes) == 0:
		return nil
	}
	w.out.Files[name] = rewritten
	for _, c := range changes {
		c.Path = name
		w.out.Changes = append(w.out.Changes, c)
	}
	if len(w.out.Changes) > maxChanges {
		return reconcile.TerminalError(ReasonTooLarge, fmt.Errorf("more than %d values would change", maxChanges))
	}
	return nil
}

// A listing is the tree as patterns are matched with it: .git is not in it.
type listing struct{ w *walk }

func (l listing) Open(name string) (fs.File, error)     { return l.w.root.Open(name) }
func (l listing) Stat(name string) (fs.FileInfo, error) { return fs.Stat(l.w.root, name) }

func (l listing) ReadDir(name string) ([]fs.DirEntry, error) {
	if l.w.listed > maxEntries {
		return nil, tooMuch()
	}
	entries, err := fs.ReadDir(l.w.root, name)
	l.w.listed += 1 + len(entries)
	return slices.Clone(entries), err
}
