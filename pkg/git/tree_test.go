package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

func TestSymbolicLinks(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Write(map[string]string{"base/file": "x\n", "dir/keep": "k\n"})
	for link, target := range map[string]string{
		"dir/inside": "../base/file", "linkdir": "base", "dir/out": "../../secret", "dir/absolute": "/etc/passwd", "dir/loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(repo.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	c := Commit(repo.Commit("links", nil))
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, name := range []string{"dir/inside", "linkdir/file"} {
		if got, err := tree.ReadFile(name); err != nil || string(got) != "x\n" {
			t.Errorf("%s: want the file behind the link, got %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"dir/out", "dir/absolute"} {
		if _, err := tree.ReadFile(name); !errors.Is(err, ErrOutside) {
			t.Errorf("%s: want ErrOutside, got %v", name, err)
		}
	}
	if _, err := tree.ReadFile("dir/loop"); err == nil {
		t.Error("a loop must end")
	}
	if got, err := tree.ReadLink("dir/inside"); err != nil || got != "../base/file" {
		t.Errorf("want the link's text, got %q, %v", got, err)
	}
	if info, err := tree.Lstat("dir/inside"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("want a link, got %v, %v", info, err)
	}
}
