package git

import (
	"slices"
	"strings"
	"testing"
)

// What was resolved a moment ago is fetched with one request, and with a list of
// references before it where that is refused.
func TestFetchOfWhatWasResolved(t *testing.T) {
	repo, server, _ := world(t)
	src, ref := Source{URL: server.URL + "/repo"}, Reference{Branch: "main"}
	remotes := newRemotes(t, Limits{})
	fetch := func(commit Commit) (requests []string, err error) {
		t.Helper()
		before := len(server.Requests())
		tree, err := remotes.Fetch(t.Context(), src, ref, commit)
		if err == nil {
			defer tree.Close()
		}
		return slices.Clone(server.Requests()[before:]), err
	}
	for range 2 { // the first one has nothing to build on
		commit, err := remotes.Resolve(t.Context(), src, ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fetch(commit); err != nil || len(got) != 1 || !strings.Contains(got[0], "git-upload-pack") {
			t.Errorf("want one request, got %q, %v", got, err)
		}
		repo.Commit("next", map[string]string{"a/cm.yaml": "next\n"})
	}
	commit, err := remotes.Resolve(t.Context(), src, ref)
	if err != nil {
		t.Fatal(err)
	}
	remotes.entries[src.ID()].recent.base = remotes.entries[src.ID()].ep.baseURL().JoinPath("elsewhere")
	if got, err := fetch(commit); err != nil || len(got) != 3 {
		t.Errorf("want the failed request and two more, got %q, %v", got, err)
	}
	old := commit
	if _, err := remotes.Resolve(t.Context(), src, ref); err != nil {
		t.Fatal(err)
	}
	next := Commit(repo.Commit("later", map[string]string{"a/cm.yaml": "later\n"}))
	if got, err := fetch(next); err != nil || len(got) != 2 {
		t.Errorf("a commit that the list does not name, %s after %s: want two requests, got %q, %v", next, old, got, err)
	}
}
