package git

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

func TestFetch(t *testing.T) {
	repo, server, commits := world(t)
	remotes := newRemotes(t, Limits{})
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	tree, err := remotes.Fetch(t.Context(), src, ref, commits["main"])
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := fstest.TestFS(tree, "a/cm.yaml", "b/cm.yaml"); err != nil {
		t.Error(err)
	}
	before := len(server.Requests())
	again, err := remotes.Fetch(t.Context(), src, ref, commits["main"])
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := len(server.Requests()) - before; n != 0 {
		t.Errorf("a commit that is there already must cost no request, got %d", n)
	}

	next := Commit(repo.Commit("third", map[string]string{"a/cm.yaml": "three\n"}))
	newer, err := remotes.Fetch(t.Context(), src, ref, next)
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	for name, want := range map[string]string{"a/cm.yaml": "three\n", "b/cm.yaml": "b\n"} {
		if got, err := newer.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: want %q, got %q, %v", name, want, got, err)
		}
	}
	if got, err := tree.ReadFile("a/cm.yaml"); err != nil || string(got) != "two\n" {
		t.Errorf("an open tree must stay as it is, got %q, %v", got, err)
	}
	if e := remotes.entries[src.ID()]; e.gen.packs != 2 || e.noHaves {
		t.Errorf("the second fetch must build on the first: %d packs, noHaves %v", e.gen.packs, e.noHaves)
	}
}

// What one path costs is not paid for its neighbours: the second pack holds the
// commit, two trees and one file.
func TestFetchTransfersTheDifference(t *testing.T) {
	repo := gittest.NewRepo(t)
	files := map[string]string{}
	for i := range 50 {
		var lines strings.Builder
		for j := range 200 { // digests, so that nothing compresses
			fmt.Fprintf(&lines, "%x\n", sha256.Sum256(fmt.Appendf(nil, "%d/%d", i, j)))
		}
		files[fmt.Sprintf("dir%02d/data", i)] = lines.String()
	}
	first := Commit(repo.Commit("first", files))
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	remotes := newRemotes(t, Limits{})
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	fetch(t, remotes, src, ref, first)
	firstBytes := remotes.entries[src.ID()].gen.bytes
	second := Commit(repo.Commit("second", map[string]string{"dir07/data": "new\n"}))
	fetch(t, remotes, src, ref, second)
	if n := remotes.entries[src.ID()].gen.bytes - firstBytes; n > firstBytes/4 {
		t.Errorf("the second commit cost %d bytes, the first %d", n, firstBytes)
	}
}

func fetch(t *testing.T, r *Remotes, src Source, ref Reference, c Commit) {
	t.Helper()
	tree, err := r.Fetch(t.Context(), src, ref, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}

func TestFetchPinned(t *testing.T) {
	repo, server, commits := world(t)
	repo.Git("branch", "-D", "old")
	repo.Git("tag", "-d", "light", "v1.0.0")
	src := Source{URL: server.URL + "/repo"}
	t.Run("InHistory", func(t *testing.T) {
		tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Revision: string(commits["first"])}, commits["first"])
		if err != nil {
			t.Fatal("a server that gives only tips must be asked for history", err)
		}
		defer tree.Close()
		if got, _ := tree.ReadFile("a/cm.yaml"); string(got) != "one\n" {
			t.Errorf("want the first commit's file, got %q", got)
		}
	})
	t.Run("Nowhere", func(t *testing.T) {
		none := Commit(strings.Repeat("ab", 20))
		_, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Revision: string(none)}, none)
		wantFault(t, err, ReasonRevisionNotFound, `commit "`+string(none)+`" is not in the repository`)
	})
	t.Run("NowhereOfAny", func(t *testing.T) { // the server gives any commit that it is asked for
		repo, server, _ := world(t)
		repo.Git("config", "uploadpack.allowAnySHA1InWant", "true")
		none := Commit(strings.Repeat("ab", 20))
		_, err := newRemotes(t, Limits{}).Fetch(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Revision: string(none)}, none)
		wantFault(t, err, ReasonRevisionNotFound, `commit "`+string(none)+`" is not in the repository`)
	})
	t.Run("MovedMeanwhile", func(t *testing.T) {
		_, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, commits["first"])
		wantFault(t, err, ReasonRemoteFailing, "")
	})
	t.Run("AnnotatedTag", func(t *testing.T) {
		repo.Git("tag", "-a", "-m", "x", "v2", string(commits["first"]))
		fetch(t, newRemotes(t, Limits{}), src, Reference{Revision: "v2"}, commits["first"])
	})
}

func TestFetchLimits(t *testing.T) {
	repo := gittest.NewRepo(t)
	c := Commit(repo.Commit("large", map[string]string{
		"zeros": strings.Repeat("0", 1<<20), "a/b/c/d": "deep", "one": "1", "two": "2",
	}))
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	cases := map[string]struct {
		limits Limits
		text   string
	}{
		"PackBytes":     {Limits{PackBytes: 100}, "the pack of the commit is larger than 100 bytes"},
		"FileBytes":     {Limits{FileBytes: 1 << 19}, "a file is larger than 524288 bytes"},
		"InflatedBytes": {Limits{InflatedBytes: 1 << 20}, "the commit, unpacked, is larger than 1 MiB"},
		"Files":         {Limits{Files: 3}, "the commit has more than 3 files and directories"},
		"Depth":         {Limits{Depth: 2}, "directories are nested deeper than 2"},
	}
	for name, c2 := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newRemotes(t, c2.limits).Fetch(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}, c)
			wantFault(t, err, ReasonTooLarge, c2.text)
		})
	}
}

func TestStoreStartsAgain(t *testing.T) {
	repo, server, commits := world(t)
	remotes := newRemotes(t, Limits{StoreBytes: 1})
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	tree, err := remotes.Fetch(t.Context(), src, ref, commits["main"])
	if err != nil {
		t.Fatal(err)
	}
	fetch(t, remotes, src, ref, Commit(repo.Commit("third", map[string]string{"a/cm.yaml": "three\n"})))
	if got, err := tree.ReadFile("a/cm.yaml"); err != nil || string(got) != "two\n" {
		t.Errorf("an open tree keeps its store, got %q, %v", got, err)
	}
	stores := func() int {
		list, err := os.ReadDir(filepath.Join(remotes.root, src.ID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := stores(); n != 2 {
		t.Errorf("want 2 stores while the tree is open, got %d", n)
	}
	_ = tree.Close()
	if n := stores(); n != 1 {
		t.Errorf("want 1 store after it is closed, got %d", n)
	}
}

// If the store has lost a file and the remote sends only what it believes is
// missing, the store is cleared and the commit is fetched in full.
func TestDamagedStore(t *testing.T) {
	repo, server, commits := world(t)
	remotes := newRemotes(t, Limits{})
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	fetch(t, remotes, src, ref, commits["main"])
	packs, err := filepath.Glob(filepath.Join(remotes.root, src.ID(), "*", "objects", "pack", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal("no packs", err)
	}
	for _, p := range packs {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	next := Commit(repo.Commit("third", map[string]string{"a/cm.yaml": "three\n"}))
	tree, err := remotes.Fetch(t.Context(), src, ref, next)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if got, err := tree.ReadFile("b/cm.yaml"); err != nil || string(got) != "b\n" {
		t.Errorf("want the file that had been lost, got %q, %v", got, err)
	}
}

func TestConcurrentFetches(t *testing.T) {
	_, server, commits := world(t)
	remotes := newRemotes(t, Limits{})
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tree, err := remotes.Fetch(context.Background(), src, ref, commits["main"])
			if err != nil {
				t.Error(err)
				return
			}
			defer tree.Close()
			if err := fs.WalkDir(tree, ".", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := remotes.entries[src.ID()].gen.packs; n != 1 {
		t.Errorf("one commit is fetched once, got %d packs", n)
	}
}

// Whatever names a commit, the remote's own branch too, it can be asked for: no
// server has to give commits by their hash for that.
func TestFetchAsResolved(t *testing.T) {
	_, server, commits := world(t)
	src := Source{URL: server.URL + "/repo"}
	for ref, want := range map[Reference]Commit{
		{Revision: RemoteHead}: commits["main"], {Branch: "main"}: commits["main"], {Revision: "main"}: commits["main"],
		{Branch: "old"}: commits["first"], {Revision: "v1.0.0"}: commits["first"], {Revision: "light"}: commits["first"],
		{Revision: string(commits["main"])}: commits["main"],
	} {
		remotes := newRemotes(t, Limits{})
		commit, err := remotes.Resolve(t.Context(), src, ref)
		if err != nil || commit != want {
			t.Errorf("%s: want %s, got %s, %v", ref, want, commit, err)
			continue
		}
		tree, err := remotes.Fetch(t.Context(), src, ref, commit)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		_ = tree.Close()
	}
}
