package git

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A forest is several repositories on one server.
type forest struct {
	*gittest.HTTPServer
	t     *testing.T
	root  string
	repos map[string]*gittest.Repo
}

func newForest(t *testing.T, serve func(testing.TB, string) *gittest.HTTPServer) *forest {
	t.Helper()
	root := t.TempDir()
	return &forest{HTTPServer: serve(t, root), t: t, root: root, repos: map[string]*gittest.Repo{}}
}

// A link is a submodule of a test.
type link struct{ at, url, commit string }

// commit writes files and submodules into a repository, which it makes on first use.
func (f *forest) commit(name string, files map[string]string, links ...link) string {
	f.t.Helper()
	repo := f.repos[name]
	if repo == nil {
		repo = gittest.NewRepo(f.t)
		f.repos[name] = repo
		path := filepath.Join(f.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Symlink(repo.Dir, path); err != nil {
			f.t.Fatal(err)
		}
	}
	var modules strings.Builder
	for _, l := range links {
		if err := os.MkdirAll(filepath.Join(repo.Dir, l.at), 0o755); err != nil {
			f.t.Fatal(err)
		}
		repo.Git("update-index", "--add", "--cacheinfo", "160000,"+l.commit+","+l.at)
		fmt.Fprintf(&modules, "[submodule %q]\n\tpath = %s\n\turl = %s\n", l.at, l.at, l.url)
	}
	if len(links) > 0 {
		repo.Write(map[string]string{".gitmodules": modules.String()})
	}
	return repo.Commit("commit of "+name, files)
}

func (f *forest) source(name string) Source {
	return Source{URL: f.URL + "/" + name, CABundle: f.PEM()}
}

// requestsTo returns how many requests a repository got.
func (f *forest) requestsTo(name string) int {
	n := 0
	for _, r := range f.Requests() {
		if strings.Contains(r, "/"+name+"/") {
			n++
		}
	}
	return n
}

func wantFile(t *testing.T, tree *Tree, name, want string) {
	t.Helper()
	if data, err := tree.ReadFile(name); err != nil || string(data) != want {
		t.Errorf("%s: %q, %v, want %q", name, data, err, want)
	}
}

// Submodules are read with the parent's credentials on its host, recursively, with relative
// and absolute URLs, and not again while their commit stays.
func TestSubmodules(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	f.Intercept(gittest.BasicAuth("ana", "pw"))
	deep := f.commit("deep", map[string]string{"z.yaml": "deep\n"})
	lib := f.commit("team/lib", map[string]string{"a.yaml": "lib\n", "dir/b.yaml": "b\n"}, link{"vendor/deep", f.URL + "/deep", deep})
	top := Commit(f.commit("team/top", map[string]string{"app/fleet.yaml": "top\n"}, link{"libs/one", "../lib", lib}))
	for _, to := range []string{"team/top", "team/lib", "deep"} {
		f.repos[to].Commit("a later commit of the branch", map[string]string{"late.yaml": "late\n"})
	}
	src := f.source("team/top")
	src.Credentials = Credentials{Username: "ana", Password: "pw"}
	remotes := newRemotes(t, Limits{})
	fetch := func(commit Commit) *Tree {
		t.Helper()
		tree, err := remotes.Fetch(t.Context(), src, Reference{Revision: string(commit)}, commit)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tree.Close() })
		return tree
	}
	tree := fetch(top)
	wantFile(t, tree, "app/fleet.yaml", "top\n")
	wantFile(t, tree, "libs/one/a.yaml", "lib\n")
	wantFile(t, tree, "libs/one/vendor/deep/z.yaml", "deep\n")
	if _, err := tree.Stat("libs/one/late.yaml"); err == nil {
		t.Error("the head of the submodule's branch was read, not the recorded commit")
	}
	if err := fstest.TestFS(tree, "app/fleet.yaml", "libs/one/dir/b.yaml", "libs/one/vendor/deep/z.yaml"); err != nil {
		t.Error(err)
	}
	if hash, ok := tree.Hash("libs/one"); !ok || hash != kindSubmodule+lib {
		t.Error(hash, ok)
	}
	if hash, ok := tree.Hash("libs/one/vendor/deep/z.yaml"); !ok || !strings.HasPrefix(hash, "file:") {
		t.Error(hash, ok)
	}

	before := f.requestsTo("team/lib") + f.requestsTo("deep")
	if before == 0 {
		t.Fatal("requests are not counted")
	}
	again := fetch(Commit(f.commit("team/top", map[string]string{"app/fleet.yaml": "second\n"})))
	wantFile(t, again, "app/fleet.yaml", "second\n")
	wantFile(t, again, "libs/one/dir/b.yaml", "b\n")
	if n := f.requestsTo("team/lib") + f.requestsTo("deep"); n != before {
		t.Errorf("%d requests for submodules whose commit is the same", n-before)
	}
}

// Symbolic links lead into submodules and out of them, but not out of the repository.
func TestSubmoduleLinks(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	lib := gittest.NewRepo(t)
	f.repos["lib"] = lib
	if err := os.Symlink(lib.Dir, filepath.Join(f.root, "lib")); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"up": "../app/a.yaml", "out": "../../etc/passwd"} {
		if err := os.Symlink(to, filepath.Join(lib.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sub := f.commit("lib", map[string]string{"b.yaml": "b\n"})
	f.commit("top", map[string]string{"app/a.yaml": "a\n"}, link{"lib", "../lib", sub})
	if err := os.Symlink("../lib/b.yaml", filepath.Join(f.repos["top"].Dir, "app", "down")); err != nil {
		t.Fatal(err)
	}
	top := f.commit("top", nil)
	tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), f.source("top"), Reference{Branch: "main"}, Commit(top))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	wantFile(t, tree, "app/down", "b\n")
	wantFile(t, tree, "lib/up", "a\n")
	if _, err := tree.ReadFile("lib/out"); err == nil {
		t.Error("a link of a submodule led out of the repository")
	}
}

// A server that gives no single commits gives its branches.
func TestSubmoduleOfOldServer(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	lib := f.commit("lib", map[string]string{"a.yaml": "old\n"})
	f.commit("lib", map[string]string{"a.yaml": "new\n"})
	for _, any := range []string{"false", "true"} {
		f.repos["lib"].Git("config", "uploadpack.allowReachableSHA1InWant", any)
		top := f.commit("top", map[string]string{"any": any}, link{"lib", "../lib", lib})
		tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), f.source("top"), Reference{Branch: "main"}, Commit(top))
		if err != nil {
			t.Fatal(any, err)
		}
		wantFile(t, tree, "lib/a.yaml", "old\n")
		_ = tree.Close()
	}
}

// Credentials of the parent stay on its host; what certificates are trusted goes with them.
func TestSubmoduleOnAnotherHost(t *testing.T) {
	other := newForest(t, gittest.ServeTLS)
	f := newForest(t, gittest.ServeTLS)
	f.Intercept(gittest.BasicAuth("ana", "pw"))
	lib := other.commit("lib", map[string]string{"a.yaml": "a\n"})
	top := Commit(f.commit("top", nil, link{"lib", other.URL + "/lib", lib}))
	src := f.source("top")
	src.CABundle = append(src.CABundle, other.PEM()...)
	src.Credentials = Credentials{Username: "ana", Password: "pw"}
	leaked := false
	private := false
	other.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		leaked = leaked || r.Header.Get("Authorization") != ""
		if private {
			http.Error(w, "no", http.StatusUnauthorized)
		}
		return private
	})
	tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, top)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, tree, "lib/a.yaml", "a\n")
	_ = tree.Close()

	private = true
	_, err = newRemotes(t, Limits{}).Fetch(t.Context(), src, Reference{Branch: "main"}, top)
	host := strings.TrimPrefix(other.URL, "https://")
	want := fmt.Sprintf(`submodule "lib" (lib of %s, commit %s): git host %q asks for credentials (401); none are set (clientSecretName); those of the GitRepo are sent to %s only`,
		host, lib[:7], host, f.URL)
	if !reconcile.IsRequeue(err) || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if leaked {
		t.Error("credentials of the parent went to another host")
	}
}

func TestSubmoduleFaults(t *testing.T) {
	missing := strings.Repeat("ab", 20)
	cases := map[string]struct {
		why    string
		links  func(f *forest, lib string) []link
		files  map[string]string
		limits Limits
		reason string
		text   string
	}{
		"NoCommit": {
			why:    "a push of the submodule heals it, and nothing reports that push",
			links:  func(_ *forest, _ string) []link { return []link{{"lib", "../lib", missing}} },
			reason: ReasonRemoteFailing, text: `submodule "lib" (lib of HOST, commit abababa): commit "` + missing + `" is not in the repository`,
		},
		"NoRepository": {
			links:  func(_ *forest, lib string) []link { return []link{{"lib", "../nothing", lib}} },
			reason: ReasonRemoteFailing, text: `submodule "lib" (nothing of HOST, commit COMMIT): git host "HOST" has no repository "nothing" (404), or it is private`,
		},
		"File": {
			why:    "it would read the disk of the manager",
			links:  func(_ *forest, lib string) []link { return []link{{"lib", "file:///etc", lib}} },
			reason: ReasonInvalidSubmodule, text: `submodule "lib" (its URL is not usable, commit COMMIT): repository URL must be https://…, http://…, ssh://… or user@host:path`,
		},
		"Dash": {
			links:  func(_ *forest, lib string) []link { return []link{{"lib", "-oProxyCommand=x:y", lib}} },
			reason: ReasonInvalidSubmodule, text: "repository URL names no host",
		},
		"TooFarUp": {
			links:  func(_ *forest, lib string) []link { return []link{{"lib", "../../../etc", lib}} },
			reason: ReasonInvalidSubmodule, text: "the relative URL leads out of the host of its parent",
		},
		"PasswordInURL": {
			why: "messages are for everyone who may read the GitRepo",
			links: func(f *forest, lib string) []link {
				return []link{{"lib", strings.Replace(f.URL, "://", "://ana:s3cret@", 1) + "/nothing", lib}}
			},
			reason: ReasonRemoteFailing, text: "has no repository",
		},
		"EscapingPath": {
			links: func(_ *forest, lib string) []link { return []link{{"lib", "../lib", lib}} },
			files: map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = ../../x\n\turl = ../lib\n"},

			reason: ReasonInvalidSubmodule, text: `.gitmodules has a submodule with path "../../x", which is no path in the repository`,
		},
		"NotAConfig": {
			links:  func(_ *forest, lib string) []link { return []link{{"lib", "../lib", lib}} },
			files:  map[string]string{".gitmodules": "[[["},
			reason: ReasonInvalidSubmodule, text: ".gitmodules is not a configuration of git",
		},
		"TooMany": {
			links: func(_ *forest, lib string) []link {
				var list []link
				for i := range maxModules + 1 {
					list = append(list, link{fmt.Sprint("lib", i), "../lib", lib})
				}
				return list
			},
			reason: ReasonTooLarge, text: "the commit has more than 100 submodules",
		},
		"TooManyFiles": {
			links: func(_ *forest, lib string) []link {
				return []link{{"a", "../lib", lib}, {"b", "../lib", lib}, {"c", "../lib", lib}}
			},
			limits: Limits{Files: 9},
			reason: ReasonTooLarge, text: "more than 9 files and directories with its submodules",
		},
		"TooDeepDirectories": {
			links:  func(_ *forest, lib string) []link { return []link{{"a/b/c/d/e", "../lib", lib}} },
			limits: Limits{Depth: 5},
			reason: ReasonTooLarge, text: "directories are nested deeper than 5",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newForest(t, gittest.ServeTLS)
			lib := f.commit("lib", map[string]string{"a": "a\n", "dir/b": "b\n"})
			top := f.commit("top", nil, c.links(f, lib)...)
			if c.files != nil {
				top = f.commit("top", c.files)
			}
			_, err := newRemotes(t, c.limits).Fetch(t.Context(), f.source("top"), Reference{Branch: "main"}, Commit(top))
			text := strings.NewReplacer("HOST", strings.TrimPrefix(f.URL, "https://"), "COMMIT", lib[:7]).Replace(c.text)
			if reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v\nwant %s: %s", reconcile.ReasonOf(err), err, c.reason, text)
			}
			if want := c.reason != ReasonRemoteFailing; reconcile.IsTerminal(err) != want {
				t.Errorf("terminal is %t: %s", !want, c.why)
			}
		})
	}
}

// The packs of a commit and of its submodules have one limit together.
func TestSubmodulePacks(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	var links []link
	for _, name := range []string{"a", "b", "c"} {
		data := make([]byte, 10<<10)
		if _, err := rand.Read(data); err != nil {
			t.Fatal(err)
		}
		links = append(links, link{name, "../" + name, f.commit(name, map[string]string{"data": string(data)})})
	}
	two := Commit(f.commit("two", nil, links[:2]...))
	three := Commit(f.commit("three", nil, links...))
	limits := Limits{PackBytes: 25 << 10}
	tree, err := newRemotes(t, limits).Fetch(t.Context(), f.source("two"), Reference{Branch: "main"}, two)
	if err != nil {
		t.Fatal(err)
	}
	_ = tree.Close()
	if _, err := newRemotes(t, limits).Fetch(t.Context(), f.source("three"), Reference{Branch: "main"}, three); reconcile.ReasonOf(err) != ReasonTooLarge {
		t.Error(err)
	}
}

func TestSubmoduleDepth(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	commit := f.commit("r0", map[string]string{"a": "a\n"})
	for i := 1; i <= maxModuleDepth+1; i++ {
		commit = f.commit(fmt.Sprint("r", i), nil, link{"sub", fmt.Sprint("../r", i-1), commit})
		tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), f.source(fmt.Sprint("r", i)), Reference{Branch: "main"}, Commit(commit))
		if i <= maxModuleDepth {
			if err != nil {
				t.Fatal(i, err)
			}
			wantFile(t, tree, strings.Repeat("sub/", i)+"a", "a\n")
			_ = tree.Close()
			continue
		}
		if reconcile.ReasonOf(err) != ReasonTooLarge || !strings.Contains(err.Error(), "nested deeper than 10") {
			t.Error(err)
		}
	}
}

// A submodule that .gitmodules does not name is left out.
func TestSubmoduleWithoutURL(t *testing.T) {
	f := newForest(t, gittest.ServeTLS)
	lib := f.commit("lib", map[string]string{"a": "a\n"})
	f.commit("top", nil, link{"lib", "../lib", lib})
	top := f.commit("top", map[string]string{".gitmodules": "[core]\n\tbare = false\n"})
	tree, err := newRemotes(t, Limits{}).Fetch(t.Context(), f.source("top"), Reference{Branch: "main"}, Commit(top))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if info, err := tree.Stat("lib"); err != nil || info.Mode() != fs.ModeIrregular {
		t.Error(info, err)
	}
}

func TestResolveRelative(t *testing.T) {
	cases := []struct{ parent, relative, want string }{
		{"https://h/org/app", "../lib", "https://h/org/lib"},
		{"https://h/org/app.git", "../../other/lib.git", "https://h/other/lib.git"},
		{"https://h/org/app/", "../lib", "https://h/org/lib"},
		{"https://h/org/app", "./lib", "https://h/org/app/lib"},
		{"https://h:8443/org/app", "../lib/", "https://h:8443/org/lib"},
		{"https://ana:pw@h/org/app", "../lib", "https://ana:pw@h/org/lib"},
		{"https://h/a%2Fb/app", "../lib", "https://h/a%2Fb/lib"},
		{"ssh://git@h/org/app", "../lib", "ssh://git@h/org/lib"},
		{"git@h:org/app", "../lib", "git@h:org/lib"},
		{"git@h:app", "../lib", "git@h:lib"},
		{"git@h:/srv/app", "../lib", "git@h:/srv/lib"},
		{"git@[2001:db8::1]:org/app", "../lib", "git@[2001:db8::1]:org/lib"},
		{"https://h/app", "../../lib", ""},
		{"git@h:app", "../../lib", ""},
	}
	for _, c := range cases {
		got, err := resolveRelative(c.parent, c.relative)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %s: %q, %v, want %q", c.relative, c.parent, got, err, c.want)
		}
	}
}

func TestModuleSource(t *testing.T) {
	secret := Credentials{Username: "ana", Password: "pw"}
	cases := []struct {
		parent, raw string
		given, want Credentials
	}{
		{"https://h/o/app", "https://h/o/lib", secret, secret},
		{"https://h/o/app", "https://H:443/o/lib", secret, secret},
		{"https://h/o/app", "../lib", secret, secret},
		{"https://h/o/app", "http://h/o/lib", secret, Credentials{}},
		{"https://h/o/app", "https://h:8443/o/lib", secret, Credentials{}},
		{"https://h/o/app", "https://h.evil/o/lib", secret, Credentials{}},
		{"https://h/o/app", "git@h:o/lib", secret, Credentials{}},
		{"git@h:o/app", "ssh://git@h/o/lib", Credentials{SSHPrivateKey: []byte("k")}, Credentials{SSHPrivateKey: []byte("k")}},
		{"git@h:o/app", "git@other:o/lib", Credentials{SSHPrivateKey: []byte("k")}, Credentials{}},
		{"https://ana:pw@h/o/app", "https://h/o/lib", Credentials{}, secret},
		{"https://ana:pw@h/o/app", "https://other/o/lib", Credentials{}, Credentials{}},
		{"https://ana:pw@h/o/app", "https://bob:x@h/o/lib", Credentials{}, Credentials{}},
	}
	for _, c := range cases {
		got, err := moduleSource(Source{URL: c.parent, Credentials: c.given, CABundle: []byte("ca"), InsecureSkipTLSVerify: true}, c.raw)
		if err != nil || string(got.CABundle) != "ca" || !got.InsecureSkipTLSVerify {
			t.Error(c.raw, got, err)
		}
		if diff := cmp.Diff(c.want, got.Credentials); diff != "" {
			t.Errorf("%s of %s\n%s", c.raw, c.parent, diff)
		}
	}
}

// No .gitmodules makes the parser panic, leads out of the repository or to a disk, or gets
// credentials for another host.
func FuzzModules(f *testing.F) {
	f.Add("https://h/o/app", []byte("[submodule \"a\"]\n\tpath = a\n\turl = ../b\n"))
	f.Add("git@h:app", []byte("[submodule \"a\"]\n\tpath = ../a\n\turl = file:///etc\n"))
	f.Add("git@h:app", []byte("[submodule \"..\"]\n\tpath = a\\n\n\turl = \"-oProxyCommand=x\"\n[submodule]\n"))
	f.Add("https://ana:pw@h/o/app", []byte("[submodule \"a\"]\npath=a\nurl=https://h@other/x\n"))
	f.Fuzz(func(t *testing.T, parent string, data []byte) {
		urls, err := parseModules(data)
		if err != nil {
			if !reconcile.IsTerminal(err) {
				t.Fatal(err)
			}
			return
		}
		if _, err := parseURL(parent); err != nil {
			return
		}
		for at, raw := range urls {
			if !filepath.IsLocal(at) {
				t.Fatalf("path %q", at)
			}
			of, err := moduleSource(Source{URL: parent, Credentials: Credentials{Password: "secret"}}, raw)
			if err != nil {
				if !reconcile.IsTerminal(err) {
					t.Fatal(err)
				}
				continue
			}
			if ep, err := parseURL(of.URL); err != nil || ep.scheme != "https" && ep.scheme != "http" && ep.scheme != "ssh" {
				t.Fatalf("URL %q", of.URL)
			}
			if of.Credentials.Password != "" && Host(of.URL) != Host(parent) {
				t.Fatalf("%q gets the credentials of %q", of.URL, parent)
			}
			if isRelative(raw) && Host(of.URL) != Host(parent) {
				t.Fatalf("%q of %q is %q", raw, parent, of.URL)
			}
		}
	})
}
