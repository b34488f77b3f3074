package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// file writes a file of a test and returns its path.
func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// gitcloner runs the command.
func gitcloner(t *testing.T, env map[string]string, args ...string) error {
	t.Helper()
	cmd := newCommand(func(name string) string { return env[name] }, io.Discard)
	cmd.SetArgs(append([]string{"gitcloner"}, args...))
	cmd.SetOut(io.Discard)
	return cmd.ExecuteContext(t.Context())
}

// The files of a commit are written over HTTPS and SSH, with the credentials of the flags.
func TestGitCloner(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Write(map[string]string{"run.sh": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(repo.Dir, "run.sh"), 0o755); err != nil { //nolint:gosec // it is a script
		t.Fatal(err)
	}
	if err := os.Symlink("a/one.yaml", filepath.Join(repo.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	first := repo.Commit("first", map[string]string{"a/one.yaml": "1"})
	repo.Git("tag", "v1")
	repo.Commit("second", map[string]string{"a/one.yaml": "2"})
	root := filepath.Dir(repo.Dir)
	web, sshd := gittest.ServeTLS(t, root), gittest.ServeSSH(t, root)
	web.Intercept(gittest.BasicAuth("ana", "canary"))
	authority, password, key := file(t, web.PEM()), file(t, []byte("canary\n")), file(t, sshd.ClientKey)
	https := []string{"--ca-bundle-file", authority, "-u", "ana", "--password-file", password, web.URL + "/repo"}
	ssh := []string{"--ssh-private-key-file", key, "ssh://git@" + sshd.Addr + "/repo"}
	cases := map[string]struct {
		why  string
		env  map[string]string
		args []string
		want string // of a/one.yaml
	}{
		"Branch":   {why: "the newest commit of a branch", args: append([]string{"-b", "main"}, https...), want: "2"},
		"Tag":      {why: "a tag", args: append([]string{"--revision", "v1"}, https...), want: "1"},
		"Commit":   {why: "a commit", args: append([]string{"--revision", first}, https...), want: "1"},
		"Both":     {why: "the branch wins", args: append([]string{"-b", "main", "--revision", "v1"}, https...), want: "2"},
		"SSH":      {why: "known hosts of the environment", env: map[string]string{envKnownHosts: string(sshd.KnownHosts)}, args: append([]string{"-b", "main"}, ssh...), want: "2"},
		"ProxyCAs": {why: "authorities of the environment", env: map[string]string{envProxyCABundle: string(web.PEM())}, args: append([]string{"-b", "main"}, https[2:]...), want: "2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new", "tree")
			if err := gitcloner(t, c.env, append(c.args, path)...); err != nil {
				t.Fatalf("%s: %v", c.why, err)
			}
			if got, err := os.ReadFile(filepath.Join(path, "link")); err != nil || string(got) != c.want {
				t.Errorf("%s: the link leads to %q, %v", c.why, got, err)
			}
			if info, err := os.Stat(filepath.Join(path, "run.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Errorf("run.sh cannot be run: %v, %v", info, err)
			}
			if _, err := os.Stat(filepath.Join(path, ".git")); !os.IsNotExist(err) {
				t.Errorf("there is a .git: %v", err)
			}
		})
	}
}

// What is wrong is said, without a credential, and no file of a user is touched.
func TestGitClonerRefuses(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("first", map[string]string{"a": "1"})
	web := gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	web.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusForbidden)
		return true
	})
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	password := file(t, []byte("canary"))
	cases := map[string]struct {
		args []string
		want string
	}{
		"NotEmpty": {[]string{web.URL + "/repo", full}, "is not empty"},
		"NoFile":   {[]string{"--password-file", "/nowhere", web.URL + "/repo", t.TempDir()}, "--password-file: open /nowhere"},
		"HalfApp":  {[]string{"--github-app-id", "1", web.URL + "/repo", t.TempDir()}, "a GitHub App needs --github-app-id"},
		"Refused":  {[]string{"--ca-bundle-file", file(t, web.PEM()), "--password-file", password, web.URL + "/repo", t.TempDir()}, "refuses"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := gitcloner(t, nil, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
	if list, err := os.ReadDir(full); err != nil || len(list) != 1 {
		t.Errorf("the directory holds %v, %v", list, err)
	}
}
