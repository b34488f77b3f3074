package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// repository judges all bundles of a GitRepo that the commit changed or removed.
func (j *judge) repository() {
	repo := j.repos[j.goal.Key]
	if repo == nil {
		j.fault("repo %s is gone", j.goal.Key.Name)
		return
	}
	if c := HeldRepo(repo); c != nil {
		j.fault("repo %s: %s", repo.Name, c.Message)
		return
	}
	all := j.bundlesOf(j.goal.Key)
	j.read(repo, all)
	staying := slices.DeleteFunc(slices.Clone(all), func(b *fleet.Bundle) bool { return reading.Leaving(repo, b) })
	j.v.Bundles = len(staying)
	if !j.v.Seen {
		return
	}
	j.v.Warnings = repoWarnings(repo, unrenderedOf(staying))
	if len(all) == 0 && len(j.v.Faults) == 0 && j.v.Trouble == "" {
		j.wait("no bundle was made from repo %s yet", repo.Name)
	}
	targeted := j.goal.Commit == "" && slices.ContainsFunc(staying, func(b *fleet.Bundle) bool { return b.Status.Summary.DesiredReady > 0 })
	for _, b := range staying {
		if j.changedBy(b) {
			j.bundle(b, targeted)
		}
	}
	j.removals(repo, all)
}

// bundlesOf are the Bundles of a GitRepo, by name.
func (j *judge) bundlesOf(repo Key) []*fleet.Bundle {
	var all []*fleet.Bundle
	for _, b := range j.bundles {
		if repoOf(b) == repo {
			all = append(all, b)
		}
	}
	return sortedBy(all)
}

// read judges whether the repository was read, at the commit and in the version
// that its spec asks for, and whether its bundles are those of that reading.
func (j *judge) read(repo *fleet.GitRepo, own []*fleet.Bundle) {
	st := repo.Status
	j.v.Commit = st.Commit
	current := st.ObservedGeneration >= repo.Generation
	at := matches(st.Commit, j.goal.Commit)
	if j.goal.Commit == "" {
		at = st.Commit != "" && !condition.IsTrue(st.Conditions, fleet.ConditionReconciling)
	}
	why := unseen(repo, j.goal.Commit)
	if at && current {
		j.v.Seen, why = j.proven(repo, own)
	}
	j.trouble(repo, at && current)
	switch {
	case !j.v.Seen && len(j.v.Faults) == 0 && j.v.Trouble == "":
		j.wait("%s", why)
		j.v.Check = check(repo, j.goal.Commit)
	case j.v.Seen && j.goal.Commit != "" && unfinished(repo) && len(j.v.Faults) == 0:
		j.wait("repo %s was not read completely yet%s", repo.Name, reconciling(repo))
	}
	if r := st.Reading; j.v.Seen && r != nil && j.goal.Commit != "" && r.Commit == st.Commit {
		j.v.Removed = r.Removed
	}
}

// trouble judges what keeps a repository from being read. What a person has to
// change is a fault. What may pass by itself is waited for, where the repository was
// read before as its spec asks for: where it never was, the spec may be wrong, and only
// a host that is away is waited for. Once the commit is there, it does not matter whether
// newer ones can be had.
func (j *judge) trouble(repo *fleet.GitRepo, there bool) {
	st := repo.Status
	_, c := RepoTrouble(repo)
	if c == nil || !fresh(c, repo.Generation) || c.ObservedGeneration == 0 && st.ObservedGeneration < repo.Generation {
		return
	}
	polled := j.goal.Commit == "" || there || matches(st.PollingCommit, j.goal.Commit)
	switch {
	case (c.Type == fleet.ConditionStalled || c.Type == fleet.ConditionReconciling) && !polled && !condition.IsFalse(st.Conditions, fleet.ConditionGitPolling):
		// about an older commit, which the next may put right
	case c.Type == fleet.ConditionDeletionHeld && j.passing(repo, c):
	case c.Type != fleet.ConditionGitPolling:
		j.fault("repo %s: %s", repo.Name, c.Message)
	case (st.Commit == "" || st.ObservedGeneration < repo.Generation) && !hostAway(c):
		j.fault("repo %s cannot be read: %s", repo.Name, c.Message)
	case j.goal.Commit == "" || !there:
		j.v.Trouble = fmt.Sprintf("repo %s cannot be read: %s", repo.Name, c.Message)
	}
}

// reasonUnreachable is the reason of a host that cannot be connected to.
const reasonUnreachable = "Unreachable"

// hostAway reports whether a condition is about a host that does not answer or refuses
// the connection, which the manager asks again. A name without an address and a port
// without TLS are mistakes of the URL as long as nothing was read.
func hostAway(c *fleet.Condition) bool {
	return c.Reason == reasonUnreachable && !strings.HasSuffix(c.Message, reconcile.TextNoAddress) && !strings.HasSuffix(c.Message, reconcile.TextNoTLS)
}

// proven judges whether own, all bundles that are seen of a repository, are those
// that its last reading left, and if not, why that is not known.
//
// The manager says so by a digest. An older one writes the status after all bundles:
// what is read after the status shows them. Of any other manager only this is known:
// a reading is over when its job has ended and all bundles carry its commit.
func (j *judge) proven(repo *fleet.GitRepo, own []*fleet.Bundle) (seen bool, why string) {
	name, commit := repo.Name, Short(repo.Status.Commit)
	shows, known := reading.Shows(repo, own)
	switch {
	case known && !shows:
		return false, fmt.Sprintf("the bundles of repo %s are not those of %s: they are being written", name, commit)
	case known, j.goal.Commit == "":
		return true, ""
	}
	j.v.Unproven = true
	behind := slices.ContainsFunc(own, func(b *fleet.Bundle) bool {
		return !reading.Leaving(repo, b) && b.Labels[fleet.LabelCommit] != repo.Status.Commit
	})
	switch {
	case !j.ordered:
		return false, fmt.Sprintf("the bundles of repo %s at %s are being read", name, commit)
	case !writesStatusLast(repo) && (behind || repo.Status.GitJobStatus != "Current"):
		return false, fmt.Sprintf("the manager of repo %s does not say whether all of %s was written", name, commit)
	}
	return true, ""
}

// writesStatusLast reports whether a GitRepo was read by a manager of this project,
// which writes its status after the Bundles. The reference writes the commit when it
// begins; its conditions name no generation.
func writesStatusLast(repo *fleet.GitRepo) bool {
	c := condition.Find(repo.Status.Conditions, fleet.ConditionGitPolling)
	return c != nil && c.ObservedGeneration > 0
}

// unfinished reports whether the last reading left something out that a later one
// of the same commit may add.
func unfinished(repo *fleet.GitRepo) bool {
	if r := repo.Status.Reading; r != nil && r.Commit == repo.Status.Commit {
		return !r.Complete
	}
	list := repo.Status.Conditions
	return condition.IsTrue(list, fleet.ConditionReconciling) && !condition.IsFalse(list, fleet.ConditionGitPolling)
}

// reconciling returns the message of a repository about a reading that is under
// way or tried again, after a colon; empty if there is none.
func reconciling(repo *fleet.GitRepo) string {
	c := condition.Find(repo.Status.Conditions, fleet.ConditionReconciling)
	if c == nil || c.Message == "" || !condition.IsTrue(repo.Status.Conditions, fleet.ConditionReconciling) {
		return ""
	}
	return ": " + c.Message
}

// check suggests what to check if a repository has not seen a commit; empty if it has, or
// if it is not read at present.
func check(repo *fleet.GitRepo, commit string) string {
	if commit == "" || repo.Status.Commit == "" || repo.Spec.Revision != "" || matches(repo.Status.Commit, commit) || matches(repo.Status.PollingCommit, commit) {
		return ""
	}
	return fmt.Sprintf("its branch %s is not at %s: either a newer commit is there, or this one is not pushed to the repository that repo %s reads",
		cmp.Or(repo.Spec.Branch, "master"), Short(commit), repo.Name)
}

func unseen(repo *fleet.GitRepo, commit string) string {
	at := Short(repo.Status.Commit)
	switch {
	case commit == "" || repo.Status.Commit == "":
		return fmt.Sprintf("repo %s was not read yet%s", repo.Name, reconciling(repo))
	case matches(repo.Status.Commit, commit):
		return fmt.Sprintf("repo %s is at %s, but was not read yet as its spec asks for%s", repo.Name, at, reconciling(repo))
	case repo.Spec.Revision != "":
		return fmt.Sprintf("repo %s is at %s and stays at revision %s", repo.Name, at, repo.Spec.Revision)
	}
	return fmt.Sprintf("repo %s is at %s%s", repo.Name, at, reconciling(repo))
}
