package gitserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Branch is the branch of repositories that are made from plain folders.
const Branch = "main"

// environment lets git see neither the user's nor the system's settings.
// Commits that are made under it have a made-up author.
func environment(home string) []string {
	const name, email = "Fleet Sandbox", "sandbox@localhost"
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C",
	}
}

func initFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of repositories: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Create makes an empty bare repository called name.
func (s *Server) Create(name string) error {
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create repository %q: %w", name, err)
	}
	if _, err := Git(s.cfg.Dir, "init", "--quiet", "--bare", "--initial-branch="+Branch, path); err != nil {
		return fmt.Errorf("create repository %q: %w", name, err)
	}
	return s.configure(name)
}

// configure allows pushes and keeps git from working in the background.
func (s *Server) configure(name string) error {
	for key, value := range map[string]string{
		"http.receivepack":              "true",
		"receive.autogc":                "false",
		"gc.auto":                       "0",
		"maintenance.auto":              "false",
		"core.hooksPath":                "/dev/null",
		"uploadpack.allowFilter":        "true",
		"uploadpack.allowAnySHA1InWant": "true",
	} {
		if _, err := Git(s.Path(name), "config", key, value); err != nil {
			return fmt.Errorf("configure repository %q: %w", name, err)
		}
	}
	return nil
}

// Publish makes the repository called name from a folder, and returns the
// branch to use. A git working tree is served with its history, as committed;
// any other folder becomes one commit on Branch. The folder is only read.
func (s *Server) Publish(name, dir string) (branch string, err error) {
	if exists(filepath.Join(dir, ".git")) {
		return s.publishClone(name, dir)
	}
	if err := s.Create(name); err != nil {
		return "", err
	}
	tree, err := os.MkdirTemp(s.cfg.Dir, ".publish-")
	if err != nil {
		return "", fmt.Errorf("publish %q: %w", dir, err)
	}
	defer os.RemoveAll(tree)
	if err := os.CopyFS(tree, os.DirFS(dir)); err != nil {
		return "", fmt.Errorf("publish %q: %w", dir, err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=" + Branch},
		{"add", "--all", "--force"},
		{"commit", "--quiet", "--allow-empty", "--message", "first commit"},
		{"push", "--quiet", s.Path(name), Branch},
	} {
		if _, err := Git(tree, args...); err != nil {
			return "", fmt.Errorf("publish %q: %w", dir, err)
		}
	}
	return Branch, nil
}

func (s *Server) publishClone(name, dir string) (string, error) {
	branch, err := Git(dir, "symbolic-ref", "--short", "HEAD")
	if err != nil {
		return "", fmt.Errorf("publish %q: its HEAD is on no branch: %w", dir, err)
	}
	if _, err := Git(s.cfg.Dir, "clone", "--quiet", "--bare", "--no-hardlinks", dir, s.Path(name)); err != nil {
		return "", fmt.Errorf("publish %q: %w", dir, err)
	}
	return branch, s.configure(name)
}

// Head is the commit that a branch of the repository called name is at.
func (s *Server) Head(name, branch string) (string, error) {
	return Git(s.Path(name), "rev-parse", "--verify", "refs/heads/"+branch)
}

// ErrNotEmpty is returned by Clone for a folder that holds something.
var ErrNotEmpty = errors.New("folder is not empty")

// Clone makes a working copy in dir whose pushes go to url. Commits there get
// the user's own name if git knows one, and else a made-up one.
func Clone(url, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clone into %q: %w", dir, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("clone into %q: %w", dir, ErrNotEmpty)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("clone into %q: %w", dir, err)
	}
	if _, err := Git(dir, "clone", "--quiet", url, "."); err != nil {
		return fmt.Errorf("clone %q: %w", url, err)
	}
	settings := map[string]string{"commit.gpgsign": "false", "push.default": "current", "core.hooksPath": "/dev/null"}
	// The user's own git is asked here, with the user's settings.
	if name, err := exec.Command("git", "-C", dir, "config", "user.name").Output(); err != nil || len(name) == 0 {
		settings["user.name"], settings["user.email"] = "Fleet Sandbox", "sandbox@localhost"
	}
	for key, value := range settings {
		if _, err := Git(dir, "config", key, value); err != nil {
			return fmt.Errorf("configure %q: %w", dir, err)
		}
	}
	return nil
}

// Git runs git in dir, without the user's settings, and returns its output
// without the blanks around it. The error holds what git said.
func Git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
