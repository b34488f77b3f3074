package git

import (
	"errors"
	"fmt"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// ErrNoCheckout says that a directory is in no working copy of git, or in one
// without a commit.
var ErrNoCheckout = errors.New("not in a git working copy with a commit")

// A Checkout is what a working copy of a person is at.
type Checkout struct {
	Commit Commit // HEAD
	Title  string // the first line of its message
	Author string // the name alone
}

// Head reads HEAD of the working copy that dir is in. It changes nothing and
// asks no remote. Outside of a working copy it is ErrNoCheckout.
func Head(dir string) (Checkout, error) {
	repo, err := gogit.PlainOpenWithOptions(dir, &gogit.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if errors.Is(err, gogit.ErrRepositoryNotExists) {
		return Checkout{}, fmt.Errorf("read HEAD of %q: %w", dir, ErrNoCheckout)
	}
	if err != nil {
		return Checkout{}, fmt.Errorf("read HEAD of %q: %w", dir, err)
	}
	head, err := repo.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return Checkout{}, fmt.Errorf("read HEAD of %q: %w", dir, ErrNoCheckout)
	}
	if err != nil {
		return Checkout{}, fmt.Errorf("read HEAD of %q: %w", dir, err)
	}
	commit, err := repo.CommitObject(head.Hash())
	if err != nil {
		return Checkout{}, fmt.Errorf("read commit %s: %w", head.Hash(), err)
	}
	title, _, _ := strings.Cut(strings.TrimSpace(commit.Message), "\n")
	return Checkout{Commit: Commit(head.Hash().String()), Title: strings.TrimSpace(title), Author: commit.Author.Name}, nil
}
