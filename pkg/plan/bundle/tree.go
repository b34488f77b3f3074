package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

var errOutside = errors.New("it leads out of the repository")

// A tree is files to be read. It notes every path that was looked at, so that a later
// reading can check whether any of it changed. Nothing else in this package touches an
// fs.FS.
//
// Only resolve takes a path with symbolic links in it; all others take what resolve
// returned, or what stands in a directory that was read.
type tree struct {
	fs     fs.FS
	hasher Hasher            // nil: nothing is noted
	whole  string            // all below this directory is noted with it
	seen   map[string]string // what look said, by path
}

// newTree is a tree that notes what is looked at, if its files have hashes.
func newTree(files fs.FS) *tree {
	hasher, _ := files.(Hasher)
	return &tree{fs: files, hasher: hasher, seen: map[string]string{}}
}

func (t *tree) recordPath(p string) {
	if t.hasher == nil || t.whole != "" && isWithin(t.whole, p) {
		return
	}
	if _, ok := t.seen[p]; !ok {
		t.seen[p] = describePath(t.fs, t.hasher, p)
	}
}

// coverDirectory notes a directory with all below it, once for all.
func (t *tree) coverDirectory(dir string) {
	t.recordPath(dir)
	t.whole = dir
}

func (t *tree) readDir(at string) ([]fs.DirEntry, error) {
	t.recordPath(at)
	return fs.ReadDir(t.fs, at)
}

func (t *tree) lstat(at string) (fs.FileInfo, error) {
	t.recordPath(at)
	return fs.Lstat(t.fs, at)
}

// errTooLarge says that a file is larger than what it is read for allows.
var errTooLarge = errors.New("it is too large")

// readFile reads a file of at most limit bytes; nothing is read of one that is
// larger.
func (t *tree) readFile(at string, limit int64) ([]byte, error) {
	info, err := t.lstat(at)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: it has %d KiB, at most %d are read", errTooLarge, info.Size()>>10, limit>>10)
	}
	return fs.ReadFile(t.fs, at)
}

// findFile resolves a path and reads the file there.
func (t *tree) findFile(name string, limit int64) ([]byte, error) {
	at, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	return t.readFile(at, limit)
}

// isDir reports whether a path leads to a directory.
func (t *tree) isDir(name string) bool {
	at, err := t.resolve(name)
	if err != nil {
		return false
	}
	info, err := t.lstat(at)
	return err == nil && info.IsDir()
}

// resolve is a path without symbolic links in it. It exists.
func (t *tree) resolve(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", errOutside
	}
	at, rest := ".", name
	if t.whole != "" && isWithin(t.whole, name) {
		at, rest = t.whole, strings.TrimPrefix(strings.TrimPrefix(name, t.whole), "/")
		if t.whole == "." {
			rest = name
		}
	}
	for links := 0; rest != "." && rest != ""; {
		step, tail, _ := strings.Cut(rest, "/")
		next := path.Join(at, step)
		link, err := t.resolvePart(next, tail)
		if err != nil {
			return "", err
		}
		if link == "" {
			at, rest = next, tail
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many symbolic links")
		}
		goal := path.Join(at, link, tail)
		if path.IsAbs(link) || !fs.ValidPath(goal) {
			return "", errOutside
		}
		at, rest = ".", goal
	}
	t.recordPath(at)
	return at, nil
}

// resolvePart looks at one part of a path, after which tail follows. It returns where
// it leads if it is a symbolic link.
func (t *tree) resolvePart(next, tail string) (link string, err error) {
	info, err := fs.Lstat(t.fs, next)
	if err == nil && tail != "" && info.Mode().IsRegular() {
		err = fs.ErrNotExist // below a file there is nothing
	}
	if err != nil {
		t.recordPath(next)
		return "", err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return "", nil
	}
	t.recordPath(next)
	if link, err = fs.ReadLink(t.fs, next); link == "" && err == nil {
		err = fs.ErrNotExist
	}
	return link, err
}
