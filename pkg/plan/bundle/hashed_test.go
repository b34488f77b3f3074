package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"
)

// hashed is a tree with hashes, as that of a git commit, that counts what is
// read.
type hashed struct {
	fstest.MapFS
	hashes   map[string]string
	children map[string][]string // sorted

	mu    sync.Mutex
	files map[string]int // bytes read, by path
	dirs  map[string]int // times read
}

func newHashed(tree fstest.MapFS) *hashed {
	h := &hashed{MapFS: tree, hashes: map[string]string{}, files: map[string]int{}, dirs: map[string]int{}}
	children := map[string][]string{".": nil}
	h.children = children
	added := map[string]bool{}
	add := func(p string) {
		for ; p != "." && !added[p]; p = path.Dir(p) {
			added[p] = true
			children[path.Dir(p)] = append(children[path.Dir(p)], p)
		}
	}
	for p, f := range tree {
		kind := "file:"
		if f.Mode&fs.ModeSymlink != 0 {
			kind = "link:"
		}
		if !f.Mode.IsDir() {
			h.hashes[p] = kind + sum(string(f.Data))
		}
		add(p)
	}
	var dir func(p string) string
	dir = func(p string) string {
		if hash, ok := h.hashes[p]; ok {
			return hash
		}
		list := children[p]
		slices.Sort(list)
		var all strings.Builder
		for _, c := range list {
			fmt.Fprintf(&all, "%s %s\n", path.Base(c), dir(c))
		}
		h.hashes[p] = "dir:" + sum(all.String())
		return h.hashes[p]
	}
	dir(".")
	return h
}

func sum(s string) string {
	raw := sha256.Sum256([]byte(s))
	return hex.EncodeToString(raw[:])
}

func (h *hashed) Hash(name string) (string, bool) {
	hash, ok := h.hashes[name]
	return hash, ok
}

// real is where a path leads. It fails for what leads out, as a git tree does.
func (h *hashed) real(name string) (string, error) {
	at, rest := ".", name
	for links := 0; rest != "." && rest != ""; {
		step, tail, _ := strings.Cut(rest, "/")
		next := path.Join(at, step)
		f := h.MapFS[next]
		if f == nil || f.Mode&fs.ModeSymlink == 0 {
			if _, ok := h.hashes[next]; !ok {
				return "", fs.ErrNotExist
			}
			at, rest = next, tail
			continue
		}
		if links++; links > 40 {
			return "", errors.New("too many links")
		}
		goal := path.Join(at, string(f.Data), tail)
		if path.IsAbs(string(f.Data)) || !fs.ValidPath(goal) {
			return "", errors.New("symbolic link leads out of the repository")
		}
		at, rest = ".", goal
	}
	return at, nil
}

func (h *hashed) Open(name string) (fs.File, error) {
	data, err := h.ReadFile(name)
	if err == nil {
		return &opened{strings.NewReader(string(data)), h, name}, nil
	}
	at, err := h.real(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return h.MapFS.Open(at)
}

type opened struct {
	io.Reader
	h    *hashed
	name string
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.h.Stat(o.name) }
func (o *opened) Close() error               { return nil }

func (h *hashed) ReadFile(name string) ([]byte, error) {
	at, err := h.real(name)
	if err == nil && (h.MapFS[at] == nil || h.MapFS[at].Mode.IsDir()) {
		err = errors.New("is a directory")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[at] += len(h.MapFS[at].Data)
	return slices.Clone(h.MapFS[at].Data), nil
}

func (h *hashed) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := h.real(name)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	h.mu.Lock()
	h.dirs[at]++
	h.mu.Unlock()
	var list []fs.DirEntry
	for _, c := range h.children[at] {
		list = append(list, h.info(c))
	}
	return list, nil
}

// info describes the file or directory at a real path.
func (h *hashed) info(at string) about {
	if f := h.MapFS[at]; f != nil {
		return about{path.Base(at), f.Mode, int64(len(f.Data))}
	}
	return about{path.Base(at), fs.ModeDir | 0o755, 0}
}

// about is fs.FileInfo and fs.DirEntry in one.
type about struct {
	name string
	mode fs.FileMode
	size int64
}

func (a about) Name() string               { return a.name }
func (a about) Size() int64                { return a.size }
func (a about) Mode() fs.FileMode          { return a.mode }
func (a about) Type() fs.FileMode          { return a.mode.Type() }
func (a about) ModTime() time.Time         { return time.Time{} }
func (a about) IsDir() bool                { return a.mode.IsDir() }
func (a about) Sys() any                   { return nil }
func (a about) Info() (fs.FileInfo, error) { return a, nil }

func (h *hashed) Stat(name string) (fs.FileInfo, error) {
	at, err := h.real(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return h.info(at), nil
}

func (h *hashed) Lstat(name string) (fs.FileInfo, error) {
	at := name
	if dir := path.Dir(name); dir != "." {
		real, err := h.real(dir)
		if err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		at = path.Join(real, path.Base(name))
	}
	if _, ok := h.hashes[at]; !ok {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return h.info(at), nil
}

func (h *hashed) Glob(pattern string) ([]string, error) { return fs.Glob(noGlob{h}, pattern) }

type noGlob struct{ h *hashed }

func (n noGlob) Open(name string) (fs.File, error)          { return n.h.Open(name) }
func (n noGlob) ReadDir(name string) ([]fs.DirEntry, error) { return n.h.ReadDir(name) }
func (n noGlob) Stat(name string) (fs.FileInfo, error)      { return n.h.Stat(name) }

// total is how many bytes were read in files whose path has a prefix.
func (h *hashed) total(prefix string) int {
	n := 0
	for p, bytes := range h.files {
		if strings.HasPrefix(p, prefix) {
			n += bytes
		}
	}
	return n
}
