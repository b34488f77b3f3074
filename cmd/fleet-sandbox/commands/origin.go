package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
)

// An origin is the repository that the fleet deploys.
type origin struct {
	url    string
	dir    string // working copy; empty for a repository that is not the sandbox's
	branch string
	commit string
}

// pollingInterval is how often the repository is asked for news. It is on
// this machine, so that costs nothing.
const pollingInterval = time.Second

// deploy prepares the repository and makes its GitRepos.
func (s *session) deploy(ctx context.Context, f *fleet.Fleet) error {
	repo := fleet.Repository{Polling: pollingInterval}
	var (
		from origin
		err  error
	)
	if given := s.plan.options.repo; strings.Contains(given, "://") || strings.HasPrefix(given, "git@") {
		from, err = foreign(ctx, given)
		repo.Name, repo.Polling = repositoryName(given), 15*time.Second
	} else {
		dir := given
		if dir == "" {
			dir = filepath.Join(s.plan.builder.Root, "examples")
			repo.LocalPaths = []string{"settings"}
		}
		repo.Name = repositoryName(dir)
		from, err = served(f.Git, repo.Name, dir, s.plan.place.repository())
	}
	if err != nil {
		return err
	}
	s.progress.step("git", fmt.Sprintf("%s, %s at %.7s", from.url, from.branch, from.commit))
	s.learn(func(k *facts) { k.repo = from })
	if err := s.plan.place.write(s.record()); err != nil {
		return err
	}
	repo.URL, repo.Branch = from.url, from.branch
	return f.Deploy(ctx, repo)
}

// served publishes a folder and makes a working copy of it.
func served(git *gitserver.Server, name, dir, work string) (origin, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return origin{}, fmt.Errorf("--repo: %w", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return origin{}, fmt.Errorf("--repo %q: want a folder or a URL", dir)
	}
	branch, err := git.Publish(name, dir)
	if err != nil {
		return origin{}, err
	}
	commit, err := git.Head(name, branch)
	if err != nil {
		return origin{}, err
	}
	if err := gitserver.Clone(git.URL(name), work); err != nil {
		return origin{}, err
	}
	return origin{url: git.URL(name), dir: work, branch: branch, commit: commit}, nil
}

// foreign finds branch and commit of a repository that is not served here.
func foreign(ctx context.Context, url string) (origin, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-remote", "--symref", "--", url, "HEAD")
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.Output()
	if err != nil {
		why := err.Error()
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			why = strings.TrimSpace(string(exit.Stderr))
		}
		return origin{}, fmt.Errorf("read %s: %s", url, why)
	}
	branch, commit, err := parseHead(string(out))
	if err != nil {
		return origin{}, fmt.Errorf("read %s: %w", url, err)
	}
	return origin{url: url, branch: branch, commit: commit}, nil
}

// parseHead reads what git ls-remote --symref prints for HEAD.
func parseHead(text string) (branch, commit string, err error) {
	for line := range strings.Lines(text) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch {
		case right != "HEAD":
		case strings.HasPrefix(left, "ref: refs/heads/"):
			branch = strings.TrimPrefix(left, "ref: refs/heads/")
		default:
			commit = left
		}
	}
	if branch == "" || commit == "" {
		return "", "", errors.New("it has no default branch")
	}
	return branch, commit, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// repositoryName makes an object's name from the last part of a path or URL.
func repositoryName(path string) string {
	name := strings.TrimSuffix(filepath.Base(strings.TrimRight(path, "/")), ".git")
	name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
	name = strings.TrimRight(name[:min(len(name), 40)], "-")
	if name == "" {
		return "repo"
	}
	return name
}
