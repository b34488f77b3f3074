package git

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// pushWorld is a repository with a history that takes commits, and what is known of it.
func pushWorld(t *testing.T) (*gittest.Repo, string) {
	t.Helper()
	repo := gittest.NewRepo(t)
	repo.Git("config", "http.receivepack", "true")
	repo.Git("config", "receive.denyCurrentBranch", "ignore")
	for _, text := range []string{"one", "two", "three"} {
		repo.Commit(text, map[string]string{
			"a/deep/file.yaml": "image: " + text + "\n", "b/run.sh": "#!/bin/sh\n", "c.txt": "c" + text + "\n",
		})
	}
	if err := os.Chmod(filepath.Join(repo.Dir, "b/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(repo.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	repo.Commit("four", nil)
	return repo, filepath.Dir(repo.Dir)
}

// signature is the author of commits of these tests.
var signature = Signature{Name: "Robot", Email: "robot@example.invalid", Time: time.Unix(1_700_000_000, 0)}

func TestPush(t *testing.T) {
	for _, over := range []string{"HTTP", "HTTPS", "SSH"} {
		t.Run(over, func(t *testing.T) {
			repo, root := pushWorld(t)
			var src Source
			switch over {
			case "HTTP":
				src = Source{URL: gittest.ServeHTTP(t, root).URL + "/repo"}
			case "HTTPS":
				server := gittest.ServeTLS(t, root)
				server.Intercept(gittest.BasicAuth("ana", "secret"))
				src = Source{URL: server.URL + "/repo", CABundle: server.PEM(), Credentials: Credentials{Username: "ana", Password: "secret"}}
			case "SSH":
				server := gittest.ServeSSH(t, root)
				src = Source{URL: "ssh://anybody@" + server.Addr + "/repo", Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: server.KnownHosts}}
			}
			remotes := newRemotes(t, Limits{})
			before := repo.Git("rev-parse", "main")
			base := head(t, remotes, src)
			got, err := remotes.Push(t.Context(), src, "main", base, Change{
				Files:   map[string][]byte{"a/deep/file.yaml": []byte("image: four\n"), "b/run.sh": []byte("#!/bin/sh\ntrue\n")},
				Message: "update images", Author: signature,
			})
			if err != nil {
				t.Fatal(err)
			}
			if at := repo.Git("rev-parse", "main"); at != string(got) {
				t.Fatalf("the branch is at %s, pushed was %s", at, got)
			}
			if parent := repo.Git("rev-parse", "main^"); parent != before {
				t.Errorf("parent %s, want %s", parent, before)
			}
			repo.Git("fsck", "--strict")
			if diff := repo.Git("diff", "--raw", "--no-abbrev", "main^", "main"); strings.Count(diff, "\n") != 1 ||
				!strings.Contains(diff, ":100755 100755") || !strings.Contains(diff, "a/deep/file.yaml") {
				t.Errorf("the commit changes something else: %s", diff)
			}
			if text := repo.Git("show", "main:a/deep/file.yaml"); text != "image: four" {
				t.Errorf("file holds %q", text)
			}
			if log := repo.Git("log", "-1", "--format=%an <%ae> %at|%cn <%ce> %ct|%B", "main"); log !=
				"Robot <robot@example.invalid> 1700000000|Robot <robot@example.invalid> 1700000000|update images" {
				t.Errorf("commit says %q", log)
			}
			// What was pushed is read like any other commit.
			again := head(t, remotes, src)
			if data, err := fs.ReadFile(again, "a/deep/file.yaml"); err != nil || string(data) != "image: four\n" {
				t.Errorf("read back %q, %v", data, err)
			}
		})
	}
}

// A commit is pushed with the token of a GitHub App, and all requests go through a proxy
// with credentials.
func TestPushWithAppThroughProxy(t *testing.T) {
	g := startGitHub(t)
	g.repo.Git("config", "http.receivepack", "true")
	g.repo.Git("config", "receive.denyCurrentBranch", "ignore")
	proxy := webtest.StartProxyWithLogin(t, proxyUser, proxyPassword)
	remotes := throughProxy(t, proxy.URL.String())
	got, err := remotes.Update(t.Context(), g.source(), "main", func(fs.FS) (Change, error) {
		return Change{Files: map[string][]byte{"a/cm.yaml": []byte("two\n")}, Message: "update", Author: signature}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if at := g.repo.Git("rev-parse", "main"); at != string(got) {
		t.Errorf("the branch is at %s, pushed was %s", at, got)
	}
	if len(proxy.Targets()) == 0 {
		t.Error("the commit was pushed past the proxy")
	}
}

// head is the head of main; the test closes it.
func head(t *testing.T, r *Remotes, src Source) *Tree {
	t.Helper()
	tree, err := r.Head(t.Context(), src, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

// A push on a head that is no longer one is refused as ErrMoved, whether the list of
// references shows it or the remote finds it when it takes the commit.
func TestPushOnAnOldHead(t *testing.T) {
	repo, root := pushWorld(t)
	server := gittest.ServeHTTP(t, root)
	src := Source{URL: server.URL + "/repo"}
	remotes := newRemotes(t, Limits{})
	change := Change{Files: map[string][]byte{"c.txt": []byte("mine\n")}, Message: "mine", Author: signature}
	for name, when := range map[string]string{"BeforeTheList": http.MethodGet, "AfterTheList": http.MethodPost} {
		t.Run(name, func(t *testing.T) {
			base := head(t, remotes, src)
			var theirs string
			server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if theirs == "" && r.Method == when && (when == http.MethodGet || strings.HasSuffix(r.URL.Path, "/git-receive-pack")) {
					theirs = repo.Commit("theirs "+name, map[string]string{"d.txt": name})
				}
				return false
			})
			defer server.Intercept(nil)
			_, err := remotes.Push(t.Context(), src, "main", base, change)
			if !errors.Is(err, ErrMoved) || reconcile.ReasonOf(err) != ReasonBranchMoved || !reconcile.IsRequeue(err) {
				t.Fatalf("want ErrMoved, got %v", err)
			}
			if at := repo.Git("rev-parse", "main"); at != theirs {
				t.Errorf("the branch is at %s, theirs is %s", at, theirs)
			}
			if text := `branch "main" has moved while a commit for it was made`; err.Error() != text {
				t.Errorf("%q, want %q", err, text)
			}
			if _, err := remotes.Push(t.Context(), src, "main", head(t, remotes, src), change); err != nil {
				t.Errorf("on the new head: %v", err)
			}
			change.Files["c.txt"] = []byte("mine again\n")
		})
	}
}

func TestPushRefused(t *testing.T) {
	const token = "canary-token"
	repo, root := pushWorld(t)
	web, sshd := gittest.ServeHTTP(t, root), gittest.ServeSSH(t, root)
	overHTTP := Source{URL: web.URL + "/repo", Credentials: Credentials{Password: token}}
	overSSH := Source{URL: "ssh://git@" + sshd.Addr + "/repo", Credentials: Credentials{SSHPrivateKey: sshd.ClientKey, KnownHosts: sshd.KnownHosts}}
	hook := func(t *testing.T) {
		script := "#!/bin/sh\necho \"branch is protected " + token + "\" >&2\nexit 1\n"
		path := filepath.Join(repo.Dir, ".git/hooks/pre-receive")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
	}
	forbid := func(*testing.T) {
		web.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("service") != "git-receive-pack" {
				return false
			}
			http.Error(w, "Permission to repo denied to "+token+"\n\x1b[31m"+strings.Repeat("x", 5000), http.StatusForbidden)
			return true
		})
	}
	cases := map[string]struct {
		why    string
		src    Source
		before func(*testing.T)
		change Change
		reason string
		texts  []string
	}{
		"HookOverHTTP": {src: overHTTP, before: hook, reason: ReasonPushRefused, texts: []string{`does not take a commit to branch "main" of "repo": it says`, "pre-receive hook declined", "branch is protected ***"}},
		"HookOverSSH":  {src: overSSH, before: hook, reason: ReasonPushRefused, texts: []string{"pre-receive hook declined: branch is protected"}},
		"ReadOnlyToken": {src: overHTTP, before: forbid, reason: ReasonPushRefused,
			texts: []string{`lets these credentials not write to "repo" (403): it says "Permission to repo denied to ***`}},
		"ReadOnlyKey": {src: overSSH, reason: ReasonPushRefused, before: func(t *testing.T) {
			sshd.Refuse("ERROR: The key you are authenticating with has been marked as read only.")
			t.Cleanup(func() { sshd.Refuse("") })
		}, texts: []string{"lets this key not write to", "marked as read only"}},
		"NoAnonymous": {src: Source{URL: web.URL + "/repo"}, before: forbid, reason: ReasonAuthenticationRefused, texts: []string{"none are set (clientSecretName)"}},
		"Link": {why: "a symbolic link is not followed", src: overHTTP, reason: ReasonInvalidReference,
			change: Change{Files: map[string][]byte{"link/deep/file.yaml": nil}}, texts: []string{`"link" is not a directory of the repository`}},
		"NewFile": {src: overHTTP, reason: ReasonInvalidReference, change: Change{Files: map[string][]byte{"new": nil}}, texts: []string{`"new" is not a file`}},
		"Outside": {src: overHTTP, reason: ReasonInvalidReference, change: Change{Files: map[string][]byte{"../c.txt": nil}}, texts: []string{`"../c.txt" is not one of a file`}},
		"Huge":    {src: overHTTP, reason: ReasonTooLarge, change: Change{Files: map[string][]byte{"c.txt": make([]byte, maxChangeBytes+1)}}},
		"NoCapable": {why: "a server that does not serve pushes", src: overHTTP, before: func(t *testing.T) {
			repo.Git("config", "http.receivepack", "false")
			t.Cleanup(func() { repo.Git("config", "http.receivepack", "true") })
		}, reason: ReasonPushRefused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			remotes := newRemotes(t, Limits{})
			if c.change.Files == nil {
				c.change = Change{Files: map[string][]byte{"c.txt": []byte("mine\n")}, Message: "mine", Author: signature}
			}
			base := head(t, remotes, c.src)
			if c.before != nil {
				c.before(t)
			}
			defer web.Intercept(nil)
			before := repo.Git("rev-parse", "main")
			_, err := remotes.Push(t.Context(), c.src, "main", base, c.change)
			if reconcile.ReasonOf(err) != c.reason || !reconcile.IsTerminal(err) {
				t.Fatalf("%s: want %s, got %s: %v", c.why, c.reason, reconcile.ReasonOf(err), err)
			}
			for _, text := range c.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if len(c.src.Credentials.SSHPrivateKey) == 0 && strings.Contains(err.Error(), "canary") || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400 {
				t.Errorf("a message holds a credential, control characters, or is long: %q", err)
			}
			if after := repo.Git("rev-parse", "main"); after != before {
				t.Errorf("the branch has moved to %s", after)
			}
		})
	}
	t.Run("DeletedBranch", func(t *testing.T) {
		remotes := newRemotes(t, Limits{})
		base := head(t, remotes, overHTTP)
		repo.Git("branch", "-m", "main", "other")
		defer repo.Git("branch", "-m", "other", "main")
		_, err := remotes.Push(t.Context(), overHTTP, "main", base, Change{Files: map[string][]byte{"c.txt": []byte("mine\n")}, Author: signature})
		if reconcile.ReasonOf(err) != ReasonBranchNotFound {
			t.Errorf("want %s, got %v", ReasonBranchNotFound, err)
		}
	})
}

// What a user writes into the spec cannot change the form of a commit.
func TestPushCleansNames(t *testing.T) {
	repo, root := pushWorld(t)
	src := Source{URL: gittest.ServeHTTP(t, root).URL + "/repo"}
	remotes := newRemotes(t, Limits{})
	author := Signature{Name: "A <b>\nparent 0000", Email: "x@y>\n", Time: signature.Time}
	_, err := remotes.Push(t.Context(), src, "main", head(t, remotes, src), Change{
		Files: map[string][]byte{"c.txt": []byte("mine\n")}, Message: "a\x00b\n\n\n", Author: author,
	})
	if err != nil {
		t.Fatal(err)
	}
	repo.Git("fsck", "--strict")
	if log := repo.Git("log", "-1", "--format=%an|%ae|%B", "main"); log != "A bparent 0000|x@y|ab" {
		t.Errorf("commit says %q", log)
	}
}

// A commit that lost the race is made again on the new head, and not for ever.
func TestUpdate(t *testing.T) {
	repo, root := pushWorld(t)
	server := gittest.ServeHTTP(t, root)
	src := Source{URL: server.URL + "/repo"}
	remotes := newRemotes(t, Limits{})
	tries := 0
	update := func(races int) (Commit, error) {
		tries = 0
		return remotes.Update(t.Context(), src, "main", func(tree fs.FS) (Change, error) {
			if tries++; tries <= races {
				repo.Commit("theirs", map[string]string{"d.txt": fmt.Sprint(races, tries)})
			}
			theirs, err := fs.ReadFile(tree, "c.txt")
			return Change{Files: map[string][]byte{"c.txt": append(theirs, '+')}, Message: "mine", Author: signature}, err
		})
	}
	commit, err := update(maxTries - 1)
	if err != nil || tries != maxTries {
		t.Fatalf("%d tries: %v", tries, err)
	}
	if at := repo.Git("rev-parse", "main"); at != string(commit) || repo.Git("show", "main:d.txt") != "4 4" {
		t.Errorf("the branch is at %s, want %s on top of theirs", at, commit)
	}
	if _, err = update(maxTries); !errors.Is(err, ErrMoved) || tries != maxTries {
		t.Errorf("want ErrMoved after %d tries, got %v after %d", maxTries, err, tries)
	}
	requests := len(server.Requests())
	commit, err = remotes.Update(t.Context(), src, "main", func(fs.FS) (Change, error) { return Change{}, nil })
	if err != nil || commit != "" || slices.ContainsFunc(server.Requests()[requests:], func(r string) bool { return strings.Contains(r, "receive") }) {
		t.Errorf("without a change nothing is sent: %q, %v", commit, err)
	}
}
