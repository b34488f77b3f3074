package gitserver

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(Config{Dir: t.TempDir(), Log: testLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

type testLog struct{ t *testing.T }

func (l testLog) Write(text []byte) (int, error) {
	l.t.Logf("%s", text)
	return len(text), nil
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run is Git that must succeed.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := Git(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPushAndFetch: what one working copy pushes, another one fetches, with
// both versions of git's protocol.
func TestPushAndFetch(t *testing.T) {
	s := start(t)
	source := t.TempDir()
	write(t, source, "web/deploy.yaml", "kind: Deployment\n")
	write(t, source, ".gitignore", "*.yaml\n")
	branch, err := s.Publish("team/examples", source)
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "work")
	if err := Clone(s.URL("team/examples"), work); err != nil {
		t.Fatal(err)
	}
	if files := run(t, work, "ls-files"); files != ".gitignore\nweb/deploy.yaml" {
		t.Errorf("ignored files belong to the folder too, got %q", files)
	}
	write(t, work, "web/big.yaml", strings.Repeat("a line that compresses\n", 100_000)) // makes git send gzip or chunks
	run(t, work, "add", "--force", ".")
	run(t, work, "commit", "-qm", "second")
	run(t, work, "push", "-q")

	head, err := s.Head("team/examples", branch)
	if err != nil || head != run(t, work, "rev-parse", "HEAD") {
		t.Errorf("the server is at %q, %v", head, err)
	}
	for _, version := range []string{"0", "1", "2"} {
		copied := t.TempDir()
		run(t, copied, "-c", "protocol.version="+version, "clone", "-q", "--depth=1", s.URL("team/examples"), ".")
		if got := run(t, copied, "rev-parse", "HEAD"); got != head {
			t.Errorf("protocol version %s: fetched %q, want %q", version, got, head)
		}
	}
}

// TestPublishKeepsHistory: a git working tree is served as it is committed.
func TestPublishKeepsHistory(t *testing.T) {
	s := start(t)
	source := t.TempDir()
	run(t, source, "init", "-q", "-b", "trunk")
	for _, text := range []string{"one", "two"} {
		write(t, source, "file", text)
		run(t, source, "add", ".")
		run(t, source, "commit", "-qm", text)
	}
	write(t, source, "file", "not committed")
	branch, err := s.Publish("mine", source)
	if err != nil || branch != "trunk" {
		t.Fatalf("want branch trunk, got %q, %v", branch, err)
	}
	if got := run(t, s.Path("mine"), "log", "--format=%s", "trunk"); got != "two\none" {
		t.Errorf("want both commits, got %q", got)
	}
	if got := run(t, s.Path("mine"), "show", "trunk:file"); got != "two" {
		t.Errorf("want what is committed, got %q", got)
	}
}

// TestProtect: without the password nothing of the repository can be read.
func TestProtect(t *testing.T) {
	s := start(t)
	if _, err := s.Publish("private", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	s.Protect("private", "ana", "s3cret")
	if _, err := Git(t.TempDir(), "ls-remote", s.URL("private")); err == nil {
		t.Error("read without a password")
	}
	u, err := url.Parse(s.URL("private"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("ana", "wrong")
	if _, err := Git(t.TempDir(), "ls-remote", u.String()); err == nil {
		t.Error("read with a wrong password")
	}
	u.User = url.UserPassword("ana", "s3cret")
	if got := run(t, t.TempDir(), "ls-remote", u.String()); !strings.Contains(got, "refs/heads/main") {
		t.Errorf("want the branch, got %q", got)
	}
	s.Protect("private", "", "")
	run(t, t.TempDir(), "ls-remote", s.URL("private"))
}

// TestCloseAndOpen: an unreachable server comes back under the same address.
func TestCloseAndOpen(t *testing.T) {
	s := start(t)
	if _, err := s.Publish("examples", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	address := s.URL("examples")
	s.Close()
	if _, err := Git(t.TempDir(), "ls-remote", address); err == nil || !strings.Contains(err.Error(), "onnect") {
		t.Errorf("want a refused connection, got %v", err)
	}
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	run(t, t.TempDir(), "ls-remote", address)
}

// TestServesNothingElse: only repositories below the folder can be named.
func TestServesNothingElse(t *testing.T) {
	s := start(t)
	if _, err := s.Publish("examples", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		why  string
		path string
	}{
		"Missing":  {"no such repository", "/other.git/info/refs?service=git-upload-pack"},
		"Above":    {"a path out of the folder", "/x/../../examples.git/info/refs?service=git-upload-pack"},
		"Escaped":  {"a path out of the folder, escaped", "/..%2f..%2fexamples.git/info/refs?service=git-upload-pack"},
		"Service":  {"only two of git's commands are services", "/examples.git/info/refs?service=git-upload-archive"},
		"NoName":   {"a repository has a name", "/.git/info/refs?service=git-upload-pack"},
		"RawFiles": {"files are not served as such", "/examples.git/config"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			base := strings.TrimSuffix(s.URL("x"), "/x.git")
			response, err := http.Get(base + c.path)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("%s: want 404, got %s", c.why, response.Status)
			}
		})
	}
}
