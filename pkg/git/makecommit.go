package git

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// maxChangeBytes bounds the new contents of one commit: they are in memory, packed and
// unpacked.
const maxChangeBytes = 32 << 20

// newObjects are the objects of a new commit: itself, and files and directories that its
// parent does not have. They are in memory; the store on disk holds what was fetched.
type newObjects struct {
	storage *memory.Storage
	hashes  []plumbing.Hash
	commit  plumbing.Hash
}

// encoder is an object of the library that has a form in git.
type encoder interface {
	Encode(plumbing.EncodedObject) error
}

// add adds an object and returns its hash.
func (n *newObjects) add(o encoder) (plumbing.Hash, error) {
	encoded := n.storage.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, err
	}
	return n.store(encoded)
}

func (n *newObjects) store(o plumbing.EncodedObject) (plumbing.Hash, error) {
	hash, err := n.storage.SetEncodedObject(o)
	if err == nil && !slices.Contains(n.hashes, hash) {
		n.hashes = append(n.hashes, hash)
	}
	return hash, err
}

// addBlob adds the content of a file.
func (n *newObjects) addBlob(data []byte) (plumbing.Hash, error) {
	o := n.storage.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(data); err != nil {
		return plumbing.ZeroHash, err
	}
	if err := w.Close(); err != nil {
		return plumbing.ZeroHash, err
	}
	return n.store(o)
}

// makeCommit makes the objects of a commit whose parent is that of the tree. It sends
// nothing.
func (t *Tree) makeCommit(c Change) (*newObjects, error) {
	size := 0
	for name, data := range c.Files {
		if !fs.ValidPath(name) || name == "." {
			return nil, permanentf(ReasonInvalidReference, "path %q is not one of a file in a repository", name)
		}
		size += len(data)
	}
	if size > maxChangeBytes {
		return nil, tooLarge("the new content of the commit", maxChangeBytes)
	}
	n := &newObjects{storage: memory.NewStorage()}
	root, err := t.replaceFiles(n, t.root, c.Files)
	if err != nil {
		return nil, answered(fmt.Errorf("make commit: %w", err))
	}
	author := object.Signature{Name: cleanIdentity(c.Author.Name), Email: cleanIdentity(c.Author.Email), When: c.Author.Time.UTC()}
	n.commit, err = n.add(&object.Commit{
		Author: author, Committer: author, Message: cleanMessage(c.Message), TreeHash: root,
		ParentHashes: []plumbing.Hash{plumbing.NewHash(string(t.commit))},
	})
	if err != nil {
		return nil, answered(fmt.Errorf("make commit: %w", err))
	}
	return n, nil
}

// replaceFiles returns the hash of a directory with other contents of files; files are by
// their paths from that directory.
func (t *Tree) replaceFiles(n *newObjects, at plumbing.Hash, files map[string][]byte) (plumbing.Hash, error) {
	d, err := t.tree(at)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	below := map[string]map[string][]byte{}
	changed := &object.Tree{Entries: slices.Clone(d.Entries)}
	entryOf := func(name string) *object.TreeEntry {
		i := slices.IndexFunc(changed.Entries, func(e object.TreeEntry) bool { return e.Name == name })
		if i < 0 {
			return &object.TreeEntry{}
		}
		return &changed.Entries[i]
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		first, rest := splitPath(name)
		if rest != "" {
			if below[first] == nil {
				below[first] = map[string][]byte{}
			}
			below[first][rest] = files[name]
			continue
		}
		e := entryOf(first)
		if e.Mode != filemode.Regular && e.Mode != filemode.Executable && e.Mode != filemode.Deprecated {
			return plumbing.ZeroHash, permanentf(ReasonInvalidReference, "%q is not a file of the repository", name)
		}
		if e.Hash, err = n.addBlob(files[name]); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		e := entryOf(name)
		if e.Mode != filemode.Dir {
			return plumbing.ZeroHash, permanentf(ReasonInvalidReference, "%q is not a directory of the repository", name)
		}
		if e.Hash, err = t.replaceFiles(n, e.Hash, below[name]); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return n.add(changed)
}
