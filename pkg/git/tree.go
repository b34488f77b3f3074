package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// ErrOutside says that a symbolic link leads out of the repository.
var ErrOutside = errors.New("symbolic link leads out of the repository")

// A Tree is the files of one commit: an fs.FS with ReadDirFS, ReadFileFS,
// StatFS and ReadLinkFS. Symbolic links are followed within the tree only. A
// submodule is a directory; one that .gitmodules does not name is a file of mode
// ModeIrregular. It may be used by several goroutines until it is closed.
type Tree struct {
	commit  Commit
	modules map[string]*Tree // submodules, by path in this tree; set before the first use
	size    treeSize
	packed  int64 // bytes on the wire that it cost
	base    int   // directories that it is in, as a submodule
	limits  Limits
	gen     *storeGeneration
	close   sync.Once
	mu      sync.Mutex // the library's storage is for one goroutine
	storage *filesystem.Storage
	root    plumbing.Hash
	time    time.Time
	trees   map[plumbing.Hash]*dir
}

// A dir is one directory, its entries by name.
type dir struct {
	*object.Tree
	names map[string]int // into Entries; nil for few
}

// few is up to how many entries a directory is searched from its start.
const few = 16

var (
	_ fs.ReadDirFS  = (*Tree)(nil)
	_ fs.ReadFileFS = (*Tree)(nil)
	_ fs.StatFS     = (*Tree)(nil)
	_ fs.ReadLinkFS = (*Tree)(nil)
)

// openTree opens a commit of a store and checks that all of it is there and
// within the limits.
func openTree(g *storeGeneration, ref Reference, commit Commit, kind treeKind, l Limits) (*Tree, error) {
	storage := g.openFrozen(kind.cacheBytes())
	c, err := object.GetCommit(storage, plumbing.NewHash(string(commit)))
	if err != nil {
		_ = storage.Close()
		if errors.Is(err, plumbing.ErrObjectNotFound) && isHash(ref.Revision) {
			return nil, noCommit(commit)
		}
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	t := &Tree{
		commit: commit, limits: l, gen: g, storage: storage, root: c.TreeHash,
		time: c.Committer.When, trees: map[plumbing.Hash]*dir{},
	}
	if t.size, err = t.checkTree(c.TreeHash, 0, &treeSize{}); err != nil {
		_ = storage.Close()
		return nil, err
	}
	g.retain()
	return t, nil
}

// Commit returns the commit whose files these are.
func (t *Tree) Commit() Commit { return t.commit }

// Close releases the store, and those of submodules.
func (t *Tree) Close() error {
	var err error
	t.close.Do(func() {
		for _, m := range t.modules {
			err = errors.Join(err, m.Close())
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		err = errors.Join(err, t.storage.Close())
		t.gen.release()
	})
	return err
}

// Open implements fs.FS.
func (t *Tree) Open(name string) (fs.File, error) {
	e, err := t.findNode("open", name, true)
	if err != nil {
		return nil, err
	}
	if e.IsDir() {
		list, err := t.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return &openDir{node: e, list: list}, nil
	}
	data, err := t.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &openFile{node: e, Reader: bytes.NewReader(data)}, nil
}

// ReadFile implements fs.ReadFileFS.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	e, err := t.findNode("read", name, true)
	if err != nil {
		return nil, err
	}
	if !e.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is not a file")}
	}
	data, err := e.tree.blob(e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.findNode("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !e.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("is not a directory")}
	}
	tree, err := e.tree.tree(e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	list := make([]fs.DirEntry, 0, len(tree.Entries))
	for i := range tree.Entries {
		entry := &tree.Entries[i]
		if !fs.ValidPath(entry.Name) || entry.Name == "." || strings.Contains(entry.Name, "/") {
			return nil, &fs.PathError{Op: "readdir", Path: name, Err: fmt.Errorf("entry %q has no valid name", entry.Name)}
		}
		list = append(list, e.entryNode(entry))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Stat implements fs.StatFS.
func (t *Tree) Stat(name string) (fs.FileInfo, error) { return t.info("stat", name, true) }

// Lstat implements fs.ReadLinkFS.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) { return t.info("lstat", name, false) }

func (t *Tree) info(op, name string, follow bool) (fs.FileInfo, error) {
	n, err := t.findNode(op, name, follow)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadLink implements fs.ReadLinkFS.
func (t *Tree) ReadLink(name string) (string, error) {
	e, err := t.findNode("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.Mode().Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	data, err := e.tree.blob(e.hash)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(data), nil
}

// findNode walks to a path, through symbolic links in its directories and, where
// follow says so, at its end.
func (t *Tree) findNode(op, name string, follow bool) (*node, error) {
	fail := func(err error) (*node, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	here := t.rootNode()
	rest, at := name, "."
	for links := 0; rest != "." && rest != ""; {
		step, tail, _ := strings.Cut(rest, "/")
		if !here.IsDir() {
			return fail(fs.ErrNotExist)
		}
		next, err := here.child(step)
		if err != nil {
			return fail(err)
		}
		if next.mode.Type() != fs.ModeSymlink || (tail == "" && !follow) {
			here, rest, at = next, tail, path.Join(at, step)
			continue
		}
		if links++; links > maxLinks {
			return fail(errors.New("too many symbolic links"))
		}
		target, err := next.tree.blob(next.hash)
		if err != nil {
			return fail(err)
		}
		goal := path.Join(at, string(target), tail)
		if path.IsAbs(string(target)) || goal == ".." || strings.HasPrefix(goal, "../") {
			return fail(ErrOutside)
		}
		here, rest, at = t.rootNode(), goal, "."
	}
	found := *here
	if name != "." {
		found.name = path.Base(name)
	}
	return &found, nil
}

// rootNode returns the node of the uppermost directory.
func (t *Tree) rootNode() *node {
	return &node{name: ".", path: ".", mode: fs.ModeDir | 0o755, hash: t.root, tree: t}
}

// child is an entry of a directory.
func (n *node) child(name string) (*node, error) {
	d, err := n.tree.tree(n.hash)
	if err != nil {
		return nil, err
	}
	if e := d.findEntry(name); e != nil {
		return n.entryNode(e), nil
	}
	return nil, fs.ErrNotExist
}

// findEntry returns the entry of a name, or nil.
func (d *dir) findEntry(name string) *object.TreeEntry {
	if d.names != nil {
		if i, ok := d.names[name]; ok {
			return &d.Entries[i]
		}
		return nil
	}
	for i := range d.Entries {
		if d.Entries[i].Name == name {
			return &d.Entries[i]
		}
	}
	return nil
}

func (t *Tree) tree(hash plumbing.Hash) (*dir, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.trees[hash]; d != nil {
		return d, nil
	}
	tree, err := object.GetTree(t.storage, hash)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	d := &dir{Tree: tree}
	if len(tree.Entries) > few {
		d.names = make(map[string]int, len(tree.Entries))
		for i := len(tree.Entries) - 1; i >= 0; i-- { // of entries with one name the first applies
			d.names[tree.Entries[i].Name] = i
		}
	}
	t.trees[hash] = d
	return d, nil
}

// blob reads an object whole; its size was bounded when it was fetched.
func (t *Tree) blob(hash plumbing.Hash) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	blob, err := object.GetBlob(t.storage, hash)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, t.limits.FileBytes+1))
	if err == nil && int64(len(data)) > t.limits.FileBytes {
		err = tooLarge("a file", t.limits.FileBytes)
	}
	return data, err
}

// entryNode returns the node of an entry of a directory.
func (n *node) entryNode(e *object.TreeEntry) *node {
	below := &node{name: e.Name, path: path.Join(n.path, e.Name), hash: e.Hash, tree: n.tree}
	switch e.Mode {
	case filemode.Dir:
		below.mode = fs.ModeDir | 0o755
	case filemode.Submodule:
		below.mode = fs.ModeIrregular
		if m := n.tree.modules[below.path]; m != nil {
			root := m.rootNode()
			root.name = e.Name
			return root
		}
	case filemode.Symlink:
		below.mode = fs.ModeSymlink | 0o777
	case filemode.Executable:
		below.mode = 0o755
	default:
		below.mode = 0o644
	}
	return below
}

// fileSize asks the store how large a file is.
func (t *Tree) fileSize(hash plumbing.Hash) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	size, err := t.storage.EncodedObjectSize(hash)
	if err != nil {
		return 0 // reading it will say what is wrong
	}
	return size
}

// A node is an entry of a tree: fs.FileInfo and fs.DirEntry in one.
type node struct {
	name string
	path string // in tree
	mode fs.FileMode
	hash plumbing.Hash
	tree *Tree
}

func (n *node) Name() string               { return n.name }
func (n *node) Mode() fs.FileMode          { return n.mode }
func (n *node) Type() fs.FileMode          { return n.mode.Type() }
func (n *node) ModTime() time.Time         { return n.tree.time }
func (n *node) IsDir() bool                { return n.mode.IsDir() }
func (n *node) Sys() any                   { return nil }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }

// Size returns the size of a file. It is read only when Size is called.
func (n *node) Size() int64 {
	if n.mode.IsDir() || n.mode.Type() == fs.ModeIrregular {
		return 0
	}
	return n.tree.fileSize(n.hash)
}

type openFile struct {
	node *node
	*bytes.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct {
	node *node
	list []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.node, nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.node.name, Err: errors.New("is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		list := d.list
		d.list = nil
		return list, nil
	}
	if len(d.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.list))
	list := d.list[:n]
	d.list = d.list[n:]
	return list, nil
}
