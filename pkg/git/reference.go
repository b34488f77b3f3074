package git

import (
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// String names the reference as people do: its revision, or else its branch.
func (r Reference) String() string {
	switch {
	case r.Revision != "":
		return r.Revision
	case r.Branch != "":
		return r.Branch
	}
	return DefaultBranch
}

// Validate checks names by git's rules, before anything is sent anywhere. The error is
// reconcile.Terminal, InvalidReference.
func (r Reference) Validate() error {
	for field, name := range map[string]string{"branch": r.Branch, "revision": r.Revision} {
		if why := badName(name); name != "" && why != "" {
			return permanentf(ReasonInvalidReference, "%s %q is not a name that git allows: %s", field, name, why)
		}
	}
	return nil
}

// badName says what is wrong with a branch or tag name, or nothing.
func badName(name string) string {
	for _, r := range name {
		if r < ' ' || r == 0x7f || strings.ContainsRune(` ~^:?*[\`, r) {
			return fmt.Sprintf("it contains %q", r)
		}
	}
	for _, part := range []string{"..", "@{", "//"} {
		if strings.Contains(name, part) {
			return fmt.Sprintf("it contains %q", part)
		}
	}
	switch {
	case len(name) > 1024:
		return "it is longer than 1024 bytes"
	case name == "@":
		return "it is only @"
	case strings.HasPrefix(name, "-"), strings.HasPrefix(name, "/"):
		return fmt.Sprintf("it starts with %q", name[:1])
	case strings.HasSuffix(name, "/"), strings.HasSuffix(name, "."):
		return fmt.Sprintf("it ends with %q", name[len(name)-1:])
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return "a part of it starts with a dot"
		}
		if strings.HasSuffix(part, ".lock") {
			return `a part of it ends with ".lock"`
		}
	}
	return ""
}

// isHash reports whether s is a full hash, sha1 or sha256.
func isHash[T string | []byte](s T) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) { // lists of references have millions of lines
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// refFilter returns a function that reports whether find needs a name of a remote's list
// for one of these references.
func refFilter(refs []Reference) func(name []byte) bool {
	names := map[string]bool{"HEAD": true}
	for _, ref := range refs {
		names["refs/heads/"+ref.String()] = true
		names["refs/tags/"+ref.Revision] = true
	}
	return func(name []byte) bool { return names[string(name)] }
}

// findCommit returns the commit that a reference means among those that a remote lists.
func findCommit(refs *packp.AdvRefs, ref Reference) (Commit, error) {
	if ref.Revision != "" {
		tag := "refs/tags/" + ref.Revision
		for _, hash := range []plumbing.Hash{refs.Peeled[tag], refs.References[tag], refs.References["refs/heads/"+ref.Revision]} {
			if !hash.IsZero() {
				return Commit(hash.String()), nil
			}
		}
		if ref.Revision == RemoteHead && refs.Head != nil {
			return Commit(refs.Head.String()), nil
		}
		return "", permanentf(ReasonRevisionNotFound,
			"revision %q is neither a tag nor a branch; a commit must be given with all its digits", ref.Revision)
	}
	if hash := refs.References["refs/heads/"+ref.String()]; !hash.IsZero() {
		return Commit(hash.String()), nil
	}
	if head := defaultBranch(refs); head != "" {
		return "", permanentf(ReasonBranchNotFound, "branch %q does not exist; the default branch is %q", ref.String(), head)
	}
	return "", permanentf(ReasonBranchNotFound, "branch %q does not exist", ref.String())
}

// defaultBranch is the branch that the remote's HEAD names, or nothing.
func defaultBranch(refs *packp.AdvRefs) string {
	for _, value := range refs.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(value, "HEAD:refs/heads/"); ok {
			return target
		}
	}
	return ""
}

func permanentf(reason, format string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(format, args...))
}
