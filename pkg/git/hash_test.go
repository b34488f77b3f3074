package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// What Hash says moves with everything at and below a path, and with nothing
// else.
func TestHash(t *testing.T) {
	repo := gittest.NewRepo(t)
	link := func(name, target string) {
		t.Helper()
		path := filepath.Join(repo.Dir, name)
		_ = os.Remove(path)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"a/b/one": "1", "a/b/two": "2", "c/one": "1"}
	for i := range 40 { // more than are searched one by one
		files["many/"+string(rune('A'+i))+".yaml"] = "x"
	}
	repo.Write(files)
	link("a/link", "b/one")
	first := Commit(repo.Commit("first", nil))
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	remotes := newRemotes(t, Limits{})
	hashes := func(c Commit) map[string]string {
		t.Helper()
		tree, err := remotes.Fetch(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}, c)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		all := map[string]string{}
		for _, p := range []string{".", "a", "a/b", "a/b/one", "a/link", "a/link/x", "c", "c/one", "many", "many/B.yaml", "none", "a/none", "a/b/one/x", "../x", "link"} {
			if h, ok := tree.Hash(p); ok {
				all[p] = h
			}
		}
		return all
	}
	before := hashes(first)
	for _, none := range []string{"a/link/x", "none", "a/none", "a/b/one/x", "../x", "link"} {
		if before[none] != "" {
			t.Errorf("%s: want nothing, got %q", none, before[none])
		}
	}
	if before["a/b/one"] != before["c/one"] || before["a/b/one"] == before["many/B.yaml"] {
		t.Errorf("want equal contents alike, others not: %v", before)
	}
	changed := func(after map[string]string) (list []string) {
		for p, h := range before {
			if after[p] != h {
				list = append(list, p)
			}
		}
		before = after
		return list
	}
	sorted := cmp.Transformer("set", func(l []string) map[string]bool {
		m := map[string]bool{}
		for _, s := range l {
			m[s] = true
		}
		return m
	})
	steps := []struct {
		why  string
		do   func()
		want []string
	}{
		{"a commit alone", func() {}, nil},
		{"one file", func() { repo.Write(map[string]string{"a/b/one": "11"}) }, []string{".", "a", "a/b", "a/b/one"}},
		{"a link points elsewhere", func() { link("a/link", "b/two") }, []string{".", "a", "a/link"}},
		{"its mode", func() { _ = os.Chmod(filepath.Join(repo.Dir, "c/one"), 0o755) }, []string{".", "c", "c/one"}},
		{"a file becomes a link of the same bytes", func() { repo.Write(map[string]string{"many/B.yaml": ""}); link("many/B.yaml", "x") }, []string{".", "many", "many/B.yaml"}},
		{"gone", func() { repo.Write(map[string]string{"c/one": ""}) }, []string{".", "c", "c/one"}},
	}
	for _, s := range steps {
		s.do()
		after := hashes(Commit(repo.Commit(s.why, nil)))
		if diff := cmp.Diff(s.want, changed(after), sorted); diff != "" {
			t.Errorf("%s: want only the way to it changed\n-want +got\n%s", s.why, diff)
		}
	}
}
