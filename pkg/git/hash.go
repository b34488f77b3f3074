package git

import (
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// Hash reports what stands at a path, by kind and digest, such as "dir:3b18e5...":
// two trees, also of different commits, that say the same have the same there
// and below: names, contents and modes. Symbolic links are not followed, neither
// on the way nor at its end. A submodule has the hash of its commit. ok is false for
// what does not exist.
//
// It costs a look into each directory on the way and reads no file.
func (t *Tree) Hash(name string) (hash string, ok bool) {
	if !fs.ValidPath(name) {
		return "", false
	}
	in, at := t, "."
	here, mode := t.root, filemode.Dir
	for rest := name; rest != "" && name != "."; {
		step, tail, _ := strings.Cut(rest, "/")
		if m := in.modules[at]; m != nil && mode == filemode.Submodule {
			in, at, here, mode = m, ".", m.root, filemode.Dir
		}
		if mode != filemode.Dir {
			return "", false
		}
		if here, mode, ok = in.lookupEntry(here, step); !ok {
			return "", false
		}
		rest, at = tail, path.Join(at, step)
	}
	return kindOf(mode) + here.String(), true
}

// lookupEntry returns hash and mode of a name in a directory.
func (t *Tree) lookupEntry(parent plumbing.Hash, name string) (plumbing.Hash, filemode.FileMode, bool) {
	d, err := t.tree(parent)
	if err != nil {
		return plumbing.ZeroHash, 0, false
	}
	e := d.findEntry(name)
	if e == nil {
		return plumbing.ZeroHash, 0, false
	}
	return e.Hash, e.Mode, true
}

// kindSubmodule is before the commit of a submodule.
const kindSubmodule = "submodule:"

// kindOf returns the part of a Hash that distinguishes entries with the same bytes.
func kindOf(mode filemode.FileMode) string {
	switch mode {
	case filemode.Dir:
		return "dir:"
	case filemode.Symlink:
		return "link:"
	case filemode.Submodule:
		return kindSubmodule
	case filemode.Executable:
		return "exec:"
	}
	return "file:"
}
