package git

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func newRemotes(t *testing.T, limits Limits) *Remotes {
	t.Helper()
	r, err := New(Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Timeout: time.Minute, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// world is one repository with a few references, served over HTTP.
func world(t *testing.T) (*gittest.Repo, *gittest.HTTPServer, map[string]Commit) {
	t.Helper()
	repo := gittest.NewRepo(t)
	commits := map[string]Commit{}
	commits["first"] = Commit(repo.Commit("first", map[string]string{"a/cm.yaml": "one\n"}))
	repo.Git("tag", "light")
	repo.Git("tag", "-a", "-m", "annotated", "v1.0.0")
	repo.Git("branch", "old")
	commits["main"] = Commit(repo.Commit("second", map[string]string{"a/cm.yaml": "two\n", "b/cm.yaml": "b\n"}))
	return repo, gittest.ServeHTTP(t, filepath.Dir(repo.Dir)), commits
}

func TestResolve(t *testing.T) {
	_, server, commits := world(t)
	remotes := newRemotes(t, Limits{})
	full := strings.Repeat("ab", 20)
	cases := map[string]struct {
		why    string
		url    string
		ref    Reference
		want   Commit
		reason string
		text   string
	}{
		"Branch":           {ref: Reference{Branch: "main"}, want: commits["main"]},
		"LightTag":         {ref: Reference{Revision: "light"}, want: commits["first"]},
		"AnnotatedTag":     {why: "the commit, not the tag object", ref: Reference{Revision: "v1.0.0"}, want: commits["first"]},
		"RevisionIsBranch": {ref: Reference{Revision: "old"}, want: commits["first"]},
		"RevisionWins":     {why: "one precedence for poll and fetch", ref: Reference{Branch: "main", Revision: "light"}, want: commits["first"]},
		"FullHash":         {why: "trusted without asking", url: "http://127.0.0.1:1/x", ref: Reference{Revision: full}, want: Commit(full)},
		"DefaultIsMaster": {
			why: "as in the reference; the text says what the person probably wants",
			ref: Reference{}, reason: ReasonBranchNotFound,
			text: `branch "master" does not exist; the default branch is "main"`,
		},
		"RemoteHead": {why: "charts without a reference come from the default branch, whatever its name", ref: Reference{Revision: RemoteHead}, want: commits["main"]},
		"ShortHash": {
			ref: Reference{Revision: "abc1234"}, reason: ReasonRevisionNotFound,
			text: `revision "abc1234" is neither a tag nor a branch; a commit must be given with all its digits`,
		},
		"Option": {
			why: "what looks like an option never leaves the process",
			ref: Reference{Branch: "--upload-pack=touch"}, reason: ReasonInvalidReference,
			text: `branch "--upload-pack=touch" is not a name that git allows: it starts with "-"`,
		},
		"NoSuchRepository": {
			url: server.URL + "/none", ref: Reference{Branch: "main"}, reason: ReasonRepositoryNotFound,
			text: fmt.Sprintf(`git host %q has no repository "none" (404), or it is private`, strings.TrimPrefix(server.URL, "http://")),
		},
		"ConnectionRefused": {
			why: "the local port of a connection must not make each text differ",
			url: "http://127.0.0.1:1/x", ref: Reference{Branch: "main"}, reason: ReasonUnreachable,
			text: `git host "127.0.0.1:1" cannot be reached: connection refused`,
		},
		"NoTLS": {
			url: strings.Replace(server.URL, "http:", "https:", 1) + "/repo", ref: Reference{Branch: "main"}, reason: ReasonUnreachable,
			text: fmt.Sprintf("git host %q cannot be reached: it does not speak TLS on this port", strings.TrimPrefix(server.URL, "http://")),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			url := c.url
			if url == "" {
				url = server.URL + "/repo"
			}
			got, err := remotes.Resolve(t.Context(), Source{URL: url}, c.ref)
			if c.reason != "" {
				wantFault(t, err, c.reason, c.text)
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%s: want %s, got %s, %v", c.why, c.want, got, err)
			}
		})
	}
}

func wantFault(t *testing.T, err error, reason, text string) {
	t.Helper()
	if err == nil || reconcile.ReasonOf(err) != reason || (text != "" && err.Error() != text) {
		t.Errorf("\nwant %s: %s\ngot  %s: %v", reason, text, reconcile.ReasonOf(err), err)
	}
	if wait := reason == ReasonUnreachable || reason == ReasonRemoteFailing; reconcile.IsRequeue(err) != wait || reconcile.IsTerminal(err) == wait {
		t.Errorf("want a wait only for %s and %s", ReasonUnreachable, ReasonRemoteFailing)
	}
}

func TestEmptyRepository(t *testing.T) {
	repo := gittest.NewRepo(t)
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
	wantFault(t, err, ReasonEmptyRepository, "the repository is empty: it has no commit")
}

func TestParallelSources(t *testing.T) {
	src := Source{URL: "https://h/r"}
	with := src
	with.Credentials.Password = "x"
	if src.ID() == with.ID() || src.ID() != (Source{URL: "https://h/r"}).ID() {
		t.Error("an ID must change with credentials and with nothing else")
	}
	if diff := cmp.Diff(32, len(with.ID())); diff != "" {
		t.Error(diff)
	}
}
