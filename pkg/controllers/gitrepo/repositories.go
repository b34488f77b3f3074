package gitrepo

import (
	"context"
	"io"

	"github.com/fleetworkspace/fleet/pkg/git"
)

// repositories is what a Worker needs of package git.
type repositories interface {
	resolver
	// Fetch returns the files of a commit. The caller closes them.
	Fetch(ctx context.Context, src git.Source, ref git.Reference, commit git.Commit) (files, error)
}

// files is the tree of one commit.
type files interface {
	hashedTree
	io.Closer
}

// remotes are the repositories that package git reads.
type remotes struct{ *git.Remotes }

// Fetch implements repositories.
func (r remotes) Fetch(ctx context.Context, src git.Source, ref git.Reference, commit git.Commit) (files, error) {
	tree, err := r.Remotes.Fetch(ctx, src, ref, commit)
	if err != nil {
		return nil, err
	}
	return tree, nil
}
