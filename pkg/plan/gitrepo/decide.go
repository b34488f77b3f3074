package gitrepo

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A Head is the state of a repository when it was last asked.
type Head struct {
	Commit string
	Err    error // reconcile.Terminal or reconcile.RequeueAfter; then Commit is empty
	// Announcement is that of the webhook for which the repository was asked; empty if
	// there was none.
	Announcement string
}

// A Read is the result of the last reading. It is not known after a start.
type Read struct {
	Known      bool
	Source     string // of Facts, as it was read from
	Commit     string
	Generation int64 // metadata.generation that was read for
	Force      int64 // forceSyncGeneration that was read for
	// Err, where not nil, ended the reading before all was written.
	Err error
	// Credentials are those of Facts that it was read with.
	Credentials string
	// Verdict is about some bundles, while all others are written.
	Verdict
	// Changed reports whether the reading wrote or removed a Bundle.
	Changed bool
	// Follows reports whether the status of the GitRepo is that of the reading before, by
	// this process: nothing else has written Bundles between the two.
	Follows bool
	// Commits are those of the Bundles that stay, by name, and Gone the names of
	// those that the reading was the first to remove; where Err is nil.
	Commits map[string]string
	Gone    []string
	// Paths are those that CheckPaths returns.
	Paths []string
}

// IsOf reports whether the status of a GitRepo is that of this reading.
func (r Read) IsOf(s fleet.GitRepoStatus) bool {
	return r.Known && r.Err == nil && r.Commit == s.Commit && r.Generation == s.ObservedGeneration && r.Force == s.UpdateGeneration
}

// isFinal reports whether the reading was for the present commit and spec, and
// trying again would end the same.
func (r Read) isFinal(f Facts) bool {
	if !r.Known || r.Commit != f.Head.Commit || r.Generation != f.Repo.Generation || r.Force != f.Repo.Spec.ForceSyncGeneration ||
		r.Credentials != f.Credentials {
		return false
	}
	return r.Err == nil && !r.Retry || reconcile.IsTerminal(r.Err) && r.Source == f.Source
}

// Facts are all that a decision about a GitRepo depends on.
type Facts struct {
	Repo *fleet.GitRepo
	// Source is the id of the remote with its credentials.
	Source string
	// Credentials is a digest of the present data of the Secrets that the GitRepo names.
	// ReadWith is the digest of those that it was read with last, from its annotations.
	Credentials, ReadWith string
	// Head is nil if the repository was not asked since the spec changed.
	Head *Head
	// Refused and Missing say what is wrong with the spec: a Secret that cannot be used, or
	// a limit of the namespace that the spec violates; fields that nothing acts on. The
	// last does not stop anything.
	Refused error
	Missing string
	// ScansOff reports that image scanning is switched off: nothing is committed.
	ScansOff bool
	// Suspended is why everything new is held back, or empty.
	Suspended string
	// Lost reports that a Bundle was removed, and not by this manager.
	Lost bool
	// Appeared is set when a cluster or cluster group that a fleet.yaml names exists
	// now and did not when the repository was read.
	Appeared bool
	Read     Read
	// Reading reports that the head is being read right now.
	Reading bool
}

// An Action is what to do about a GitRepo now.
type Action string

// The actions.
const (
	// Rest: nothing.
	Rest Action = "rest"
	// Wait: nothing, until something comes that is named in the reason.
	Wait Action = "wait"
	// Fetch: read the repository's head and write Bundles.
	Fetch Action = "read"
	// Remove: remove all Bundles, then let go of the GitRepo.
	Remove Action = "remove"
)

// A Step is the Action, and its reason.
type Step struct {
	Action Action
	Reason string
}

// Decide returns what to do about a GitRepo. It reads again when the repository moved, the
// spec changed, the user forced it, a Bundle was lost, the last reading failed in a way that
// may pass, or another process has found warnings. It reads nothing while something holds
// that back. It removes the Bundles of a deleted GitRepo in any case, with two exceptions:
// the global pause is on, or the GitRepo is protected and the manager has not taken the protection
// off yet.
func Decide(f Facts) Step {
	repo, status := f.Repo, f.Repo.Status
	switch {
	case repo.DeletionTimestamp != nil && f.Suspended != "":
		return Step{Wait, f.Suspended}
	case repo.DeletionTimestamp != nil && withdrawal.IsProtected(repo):
		return Step{Wait, "the GitRepo is protected: its deletion waits to be approved"}
	case repo.DeletionTimestamp != nil:
		return Step{Remove, "the GitRepo is deleted"}
	case f.Refused != nil:
		return Step{Wait, f.Refused.Error()}
	case f.Head == nil:
		return Step{Wait, "the repository is being asked"}
	case f.Head.Err != nil:
		return Step{Wait, f.Head.Err.Error()}
	}
	why := changesIn(f, status)
	switch {
	case why == "" && !f.Read.Known && f.Suspended == "" && shownWarning(status).Message != "":
		return Step{Fetch, "the warnings of the last reading may be over"}
	case why == "":
		return Step{Rest, "nothing is new"}
	case f.Suspended != "":
		return Step{Wait, f.Suspended}
	}
	return Step{Fetch, why}
}

// changesIn says why the repository has to be read, or nothing.
func changesIn(f Facts, status fleet.GitRepoStatus) string {
	repo := f.Repo
	if f.Lost {
		return "a Bundle has gone"
	}
	if f.Appeared {
		return "a cluster that it names is there now"
	}
	if f.Read.isFinal(f) {
		return "" // the status may be behind what we did
	}
	switch {
	case status.Commit != f.Head.Commit:
		return fmt.Sprintf("commit %.7s is new", f.Head.Commit)
	case status.ObservedGeneration != repo.Generation:
		return "the spec has changed"
	case status.UpdateGeneration != repo.Spec.ForceSyncGeneration:
		return "it was asked for"
	case f.Credentials != f.ReadWith:
		return "a Secret that it names has changed"
	case f.Read.Known, status.GitJobStatus != JobCurrent:
		return "the last reading failed"
	}
	return ""
}
