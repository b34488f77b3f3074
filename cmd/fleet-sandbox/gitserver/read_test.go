package gitserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

func newRemotes(t *testing.T) *git.Remotes {
	t.Helper()
	remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remotes.Close() })
	return remotes
}

// publish makes a repository of files and of submodules: paths with URL and commit.
func publish(t *testing.T, s *Server, name string, files map[string]string, modules map[string][2]string) git.Commit {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	if err := s.Create(name); err != nil {
		t.Fatal(err)
	}
	if err := Clone(s.URL(name), work); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		write(t, work, file, text)
	}
	var config strings.Builder
	for path, m := range modules {
		fmt.Fprintf(&config, "[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, m[0])
		run(t, work, "update-index", "--add", "--cacheinfo", "160000,"+m[1]+","+path)
	}
	if len(modules) > 0 {
		write(t, work, ".gitmodules", config.String())
		run(t, work, "add", ".gitmodules")
	}
	for file := range files {
		run(t, work, "add", file)
	}
	run(t, work, "commit", "-qm", name)
	run(t, work, "push", "-q", "origin", "HEAD:"+Branch)
	return git.Commit(run(t, work, "rev-parse", "HEAD"))
}

func wantFile(t *testing.T, tree *git.Tree, name, want string) {
	t.Helper()
	if data, err := tree.ReadFile(name); err != nil || string(data) != want {
		t.Errorf("%s: %q, %v, want %q", name, data, err, want)
	}
}

// Package git reads nested submodules of protected repositories with the password of the
// first one.
func TestReadSubmodules(t *testing.T) {
	s := start(t)
	deep := publish(t, s, "team/deep", map[string]string{"z.yaml": "deep\n"}, nil)
	lib := publish(t, s, "team/lib", map[string]string{"a.yaml": "lib\n"}, map[string][2]string{"deep": {"../deep.git", string(deep)}})
	top := publish(t, s, "top", map[string]string{"t.yaml": "top\n"}, map[string][2]string{"vendor/lib": {s.URL("team/lib"), string(lib)}})
	for _, name := range []string{"top", "team/lib", "team/deep"} {
		s.Protect(name, "ana", "pw")
	}
	src := git.Source{URL: s.URL("top"), Credentials: git.Credentials{Username: "ana", Password: "pw"}}
	tree, err := newRemotes(t).Fetch(t.Context(), src, git.Reference{Branch: Branch}, top)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	wantFile(t, tree, "t.yaml", "top\n")
	wantFile(t, tree, "vendor/lib/a.yaml", "lib\n")
	wantFile(t, tree, "vendor/lib/deep/z.yaml", "deep\n")
}

// Package git reads, as a GitHub App, a repository and its submodule over HTTPS from a server
// that accepts nothing but the App's token.
func TestReadAsGitHubApp(t *testing.T) {
	const token = "ghs_token"
	s := start(t)
	lib := publish(t, s, "org/lib", map[string]string{"a.yaml": "lib\n"}, nil)
	top := publish(t, s, "org/top", map[string]string{"t.yaml": "top\n"}, map[string][2]string{"lib": {"../lib.git", string(lib)}})
	s.Protect("org/top", "x-access-token", token)
	s.Protect("org/lib", "x-access-token", token)
	var asked atomic.Int32
	https := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v3/app/installations/34/access_tokens" {
			s.ServeHTTP(w, r)
			return
		}
		asked.Add(1)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":%q,"expires_at":%q}`, token, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer https.Close()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := git.CredentialsOf("Opaque", map[string][]byte{
		"github_app_id": []byte("12"), "github_app_installation_id": []byte("34"),
		"github_app_private_key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	src := git.Source{
		URL: https.URL + "/org/top.git", Credentials: credentials,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}),
	}
	remotes := newRemotes(t)
	if commit, err := remotes.Resolve(t.Context(), src, git.Reference{Branch: Branch}); err != nil || commit != top {
		t.Fatal(commit, err)
	}
	tree, err := remotes.Fetch(t.Context(), src, git.Reference{Branch: Branch}, top)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	wantFile(t, tree, "lib/a.yaml", "lib\n")
	if n := asked.Load(); n != 1 {
		t.Errorf("%d tokens were requested, want one for repository and submodule", n)
	}
}
