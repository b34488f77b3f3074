package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
)

// HEAD is found from any folder of a working copy, and nowhere else.
func TestHead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Head(dir); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("no repository: want ErrNoCheckout, got %v", err)
	}
	repo, err := gogit.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Head(dir); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("no commit: want ErrNoCheckout, got %v", err)
	}
	below := filepath.Join(dir, "web", "templates")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tree.Commit("web 1.4.0\n\nmore about it", &gogit.CommitOptions{
		AllowEmptyCommits: true, Author: &object.Signature{Name: "Ana", Email: "ana@example.com", When: time.Unix(0, 0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Head(below)
	want := Checkout{Commit: Commit(hash.String()), Title: "web 1.4.0", Author: "Ana"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}
