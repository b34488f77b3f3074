package git

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// A treeSize is how much is below a tree.
type treeSize struct {
	entries int // in all
	modules int // those that are submodules
	depth   int // of directories; 0: none
}

// checkTree looks at every entry below a tree, once for each store: trees of earlier
// commits are known to be complete. total is the sum so far.
func (t *Tree) checkTree(hash plumbing.Hash, depth int, total *treeSize) (treeSize, error) {
	known, ok := t.gen.trees[hash]
	if ok {
		return known, t.addWithinLimits(depth+known.depth, total.entries+known.entries, total)
	}
	if err := t.addWithinLimits(depth, total.entries, total); err != nil {
		return treeSize{}, err
	}
	tree, err := object.GetTree(t.storage, hash)
	if err != nil {
		return treeSize{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	own := treeSize{entries: len(tree.Entries)}
	if err := t.addWithinLimits(depth, total.entries+own.entries, total); err != nil {
		return treeSize{}, err
	}
	for _, e := range tree.Entries {
		switch e.Mode {
		case filemode.Submodule:
			own.modules++
		case filemode.Dir:
			below, err := t.checkTree(e.Hash, depth+1, total)
			if err != nil {
				return treeSize{}, err
			}
			own.entries += below.entries
			own.modules += below.modules
			own.depth = max(own.depth, below.depth+1)
		default:
			// HasEncodedObject does not work here: for a frozen view it finds loose
			// objects only.
			if _, err := t.storage.EncodedObjectSize(e.Hash); err != nil {
				return treeSize{}, fmt.Errorf("%w: %w", errDamaged, err)
			}
		}
	}
	t.gen.trees[hash] = own
	return own, nil
}

// addWithinLimits refuses what is too deep or too much, and else notes it as counted.
func (t *Tree) addWithinLimits(depth, entries int, total *treeSize) error {
	if depth > t.limits.Depth {
		return permanentf(ReasonTooLarge, "directories are nested deeper than %d", t.limits.Depth)
	}
	if entries > t.limits.Files {
		return permanentf(ReasonTooLarge, "the commit has more than %d files and directories", t.limits.Files)
	}
	total.entries = entries
	return nil
}
