// Package gittest gives tests real git repositories and real git servers on
// loopback: git's own http-backend behind net/http, and git-upload-pack behind
// an SSH server. It runs the git program, which tests may rely on.
package gittest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Repo is a repository on disk with a work tree; its first branch is main.
type Repo struct {
	Dir string // the work tree
	t   testing.TB
}

// NewRepo makes an empty repository that servers of this package may serve.
func NewRepo(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{Dir: filepath.Join(t.TempDir(), "repo"), t: t}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git("init", "--quiet", "--initial-branch=main")
	r.Git("config", "user.name", "Test")
	r.Git("config", "user.email", "test@example.invalid")
	r.Git("config", "commit.gpgsign", "false")
	r.Git("config", "gc.auto", "0")
	return r
}

// Git runs a git command in the work tree and returns what it printed.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Write puts files into the work tree, making directories on the way. A path
// whose content is empty is removed.
func (r *Repo) Write(files map[string]string) {
	r.t.Helper()
	for name, content := range files {
		path := filepath.Join(r.Dir, filepath.FromSlash(name))
		if content == "" {
			if err := os.RemoveAll(path); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Commit writes files, commits the whole work tree and returns the commit.
func (r *Repo) Commit(message string, files map[string]string) string {
	r.t.Helper()
	r.Write(files)
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "-m", message)
	return r.Git("rev-parse", "HEAD")
}
