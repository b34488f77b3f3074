// Package webhook decides which GitRepos a push concerns that a git host announces, and
// which commit it announces to them.
package webhook

import (
	"cmp"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Push is what a git host announces about one repository.
type Push struct {
	// Addresses are those of the repository. An address that cannot be read is ignored.
	Addresses []string
	Changes   []Change
}

// A Change is a new head of a branch.
type Change struct {
	Branch string // without refs/heads/
	Commit string // 40 or 64 hexadecimal digits
}

// branches is the beginning of the full name of a branch.
const branches = "refs/heads/"

// AddChange adds the new head of a reference. It ignores tags, which no branch follows,
// and deletions, which announce no commit: they have no hash or one of zeros. It returns
// false if the commit is not a hash.
func (p *Push) AddChange(ref, commit string) bool {
	branch, ok := strings.CutPrefix(ref, branches)
	if !ok || strings.Trim(commit, "0") == "" {
		return true
	}
	if !isHash(commit) {
		return false
	}
	p.Changes = append(p.Changes, Change{Branch: branch, Commit: strings.ToLower(commit)})
	return true
}

// isHash reports whether a text is a hash of git.
func isHash(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// Repositories returns the repositories of the push, each once.
func (p Push) Repositories() []Repository {
	var list []Repository
	seen := map[Repository]bool{}
	for _, address := range p.Addresses {
		if r, ok := ParseRepository(address); ok && !seen[r] {
			seen[r] = true
			list = append(list, r)
		}
	}
	return list
}

// defaultBranch is the branch of a GitRepo that names none.
const defaultBranch = "master"

// CommitFor returns the commit that the push announces to a GitRepo of this repository;
// empty if there is none: the push is to other branches, the GitRepo follows a revision,
// or the GitRepo is being deleted.
func (p Push) CommitFor(repo *fleet.GitRepo) string {
	if repo.Spec.Revision != "" || repo.DeletionTimestamp != nil {
		return ""
	}
	commit := ""
	for _, c := range p.Changes {
		if c.Branch == cmp.Or(repo.Spec.Branch, defaultBranch) {
			commit = c.Commit
		}
	}
	return commit
}
