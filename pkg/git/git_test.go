package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

func newRemotes(t *testing.T, limits Limits) *Remotes {
	t.Helper()
	r, err := New(Config{Dir: t.TempDir(), Timeout: 10 * time.Second, Limits: limits})
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
		"NobodyListens": {
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
	if err == nil || fault.ReasonOf(err) != reason || (text != "" && err.Error() != text) {
		t.Errorf("\nwant %s: %s\ngot  %s: %v", reason, text, fault.ReasonOf(err), err)
	}
	if wait := reason == ReasonUnreachable; fault.IsWait(err) != wait || fault.IsPermanent(err) == wait {
		t.Errorf("want a wait only for %s", ReasonUnreachable)
	}
}

func TestEmptyRepository(t *testing.T) {
	repo := gittest.NewRepo(t)
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
	wantFault(t, err, ReasonEmptyRepository, "the repository is empty: it has no commit")
}

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
	t.Run("MovedMeanwhile", func(t *testing.T) {
		_, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, commits["first"])
		wantFault(t, err, ReasonUnreachable, "")
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

func TestStoreIsBegunAnew(t *testing.T) {
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

// A store that lost a file, on a remote that believes we have it, is begun anew.
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

func TestCredentialsOverHTTP(t *testing.T) {
	_, server, commits := world(t)
	host := strings.TrimPrefix(server.URL, "http://")
	url := server.URL + "/repo"
	cases := map[string]struct {
		why          string
		user, pass   string // what the server wants
		url          string
		credentials  Credentials
		reason, text string
	}{
		"Basic":      {user: "ana", pass: "canary-1", credentials: Credentials{Username: "ana", Password: "canary-1"}},
		"TokenAlone": {why: "a password alone is the user name", user: "canary-2", credentials: Credentials{Password: "canary-2"}},
		"InURL":      {user: "ana", pass: "canary-3", url: strings.Replace(url, "//", "//ana:canary-3@", 1)},
		"SecretWins": {user: "ana", pass: "canary-4", url: strings.Replace(url, "//", "//eve:x@", 1), credentials: Credentials{Username: "ana", Password: "canary-4"}},
		"None": {
			user: "ana", pass: "canary-5", reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("git host %q asks for credentials (401); none are set (clientSecretName)", host),
		},
		"Wrong": {
			user: "ana", pass: "right", credentials: Credentials{Username: "ana", Password: "canary-6"}, reason: ReasonAuthenticationRefused,
			text: fmt.Sprintf("git host %q refuses the credentials (401)", host),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server.Handle = gittest.BasicAuth(c.user, c.pass)
			src := Source{URL: c.url, Credentials: c.credentials}
			if src.URL == "" {
				src.URL = url
			}
			remotes := newRemotes(t, Limits{})
			got, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"})
			if c.reason != "" {
				wantFault(t, err, c.reason, c.text)
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("a credential stands in the error: %v", err)
				}
				return
			}
			if err != nil || got != commits["main"] {
				t.Fatal(got, err)
			}
			fetch(t, remotes, src, Reference{Branch: "main"}, got)
		})
	}
}

func TestRedirects(t *testing.T) {
	_, server, commits := world(t)
	seen := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		http.Redirect(w, r, server.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer other.Close()
	t.Run("WithinTheHost", func(t *testing.T) {
		server.Handle = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/renamed/") {
				return gittest.BasicAuth("ana", "pw")(w, r)
			}
			http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), "/renamed/", "/repo/", 1), http.StatusMovedPermanently)
			return true
		}
		src := Source{URL: server.URL + "/renamed", Credentials: Credentials{Username: "ana", Password: "pw"}}
		remotes := newRemotes(t, Limits{})
		got, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"})
		if err != nil || got != commits["main"] {
			t.Fatal(got, err)
		}
		fetch(t, remotes, src, Reference{Branch: "main"}, got)
	})
	t.Run("ElsewhereWithoutCredentials", func(t *testing.T) {
		server.Handle = nil
		got, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: other.URL + "/repo"}, Reference{Branch: "main"})
		if err != nil || got != commits["main"] {
			t.Fatal(got, err)
		}
		<-seen
	})
	t.Run("ElsewhereWithCredentials", func(t *testing.T) {
		stolen := make(chan string, 10)
		server.Handle = func(_ http.ResponseWriter, r *http.Request) bool {
			stolen <- r.Header.Get("Authorization")
			return false
		}
		src := Source{URL: other.URL + "/repo", Credentials: Credentials{Username: "ana", Password: "canary"}}
		_, err := newRemotes(t, Limits{}).Resolve(t.Context(), src, Reference{Branch: "main"})
		wantFault(t, err, ReasonRedirected, "")
		if len(stolen) != 0 {
			t.Errorf("the other host was asked, with %q", <-stolen)
		}
	})
	t.Run("LoginPage", func(t *testing.T) {
		server.Handle = func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login", http.StatusFound)
			return true
		}
		_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
		wantFault(t, err, ReasonRedirected, "")
	})
}

func TestHTTPFaults(t *testing.T) {
	_, server, _ := world(t)
	host := strings.TrimPrefix(server.URL, "http://")
	cases := map[string]struct {
		handle       func(http.ResponseWriter, *http.Request) bool
		reason, text string
	}{
		"Maintenance": {func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusServiceUnavailable)
			return true
		}, ReasonUnreachable, fmt.Sprintf("git host %q cannot be reached: it answers 503 Service Unavailable", host)},
		"WebPage": {func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		}, ReasonNotGit, ""},
		"Garbage": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("zzzz"))
			return true
		}, ReasonUnreachable, fmt.Sprintf("git host %q cannot be reached: the answer could not be read", host)},
		"HangUp": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
			ReasonUnreachable, fmt.Sprintf("git host %q cannot be reached: the connection was closed early", host)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server.Handle = c.handle
			_, err := newRemotes(t, Limits{}).Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
			wantFault(t, err, c.reason, c.text)
		})
	}
	t.Run("Silence", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		server.Handle = func(http.ResponseWriter, *http.Request) bool { <-release; return true }
		remotes, err := New(Config{Dir: t.TempDir(), Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = remotes.Resolve(t.Context(), Source{URL: server.URL + "/repo"}, Reference{Branch: "main"})
		wantFault(t, err, ReasonUnreachable, fmt.Sprintf("git host %q cannot be reached: no answer in time", host))
	})
}

func TestTLS(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := Commit(repo.Commit("first", map[string]string{"a": "1"}))
	server := gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	url, ref := server.URL+"/repo", Reference{Branch: "main"}
	remotes := newRemotes(t, Limits{})
	_, err := remotes.Resolve(t.Context(), Source{URL: url}, ref)
	wantFault(t, err, ReasonCertificateRefused, "")
	for name, src := range map[string]Source{
		"CABundle": {URL: url, CABundle: server.PEM()},
		"Insecure": {URL: url, InsecureSkipTLSVerify: true},
	} {
		got, err := remotes.Resolve(t.Context(), src, ref)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	_, err = remotes.Resolve(t.Context(), Source{URL: url, CABundle: []byte("no PEM")}, ref)
	wantFault(t, err, ReasonInvalidCredentials, "caBundle holds no PEM certificate")
}

func TestSSH(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := Commit(repo.Commit("first", map[string]string{"a": "1"}))
	server := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	other := gittest.ServeSSH(t, filepath.Dir(repo.Dir))
	remotes, ref := newRemotes(t, Limits{}), Reference{Branch: "main"}
	url := "ssh://git@" + server.Addr + "/repo"
	good := Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: server.KnownHosts}
	src := Source{URL: url, Credentials: good}
	got, err := remotes.Resolve(t.Context(), src, ref)
	if err != nil || got != want {
		t.Fatal(got, err)
	}
	fetch(t, remotes, src, ref, got)
	next := Commit(repo.Commit("second", map[string]string{"a": "2"}))
	fetch(t, remotes, src, ref, next)

	foreign := strings.Replace(string(other.KnownHosts), other.Addr[strings.LastIndex(other.Addr, ":"):], server.Addr[strings.LastIndex(server.Addr, ":"):], 1)
	cases := map[string]struct {
		src          Source
		reason, text string
	}{
		"NoKey": {Source{URL: url}, ReasonInvalidCredentials, ""},
		"NoKnownHosts": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey}}, ReasonHostKeyRefused,
			fmt.Sprintf("no host key of git host %q is known: add it to known_hosts of the secret", server.Addr),
		},
		"UnknownHost": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: other.KnownHosts}}, ReasonHostKeyRefused,
			fmt.Sprintf("no host key of git host %q is known: add it to known_hosts of the secret", server.Addr),
		},
		"AnotherHostKey": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: server.ClientKey, KnownHosts: []byte(foreign)}}, ReasonHostKeyRefused, "",
		},
		"WrongKey": {
			Source{URL: url, Credentials: Credentials{SSHPrivateKey: gittest.NewKey(t), KnownHosts: server.KnownHosts}}, ReasonAuthenticationRefused,
			fmt.Sprintf("git host %q refuses the SSH key", server.Addr),
		},
		"NoSuchRepository": {Source{URL: url + "-none", Credentials: good}, ReasonRepositoryNotFound, ""},
		"Injection":        {Source{URL: "ssh://git@" + server.Addr + "/x';touch$IFS'pwned", Credentials: good}, ReasonRepositoryNotFound, ""},
		"NobodyListens": {Source{URL: "ssh://git@127.0.0.1:1/repo", Credentials: good}, ReasonUnreachable,
			`git host "127.0.0.1:1" cannot be reached: connection refused`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := remotes.Resolve(t.Context(), c.src, ref)
			wantFault(t, err, c.reason, c.text)
		})
	}
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
