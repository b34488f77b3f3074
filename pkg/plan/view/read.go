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

// evaluateRepository judges all bundles of a GitRepo that the commit changed or removed.
func (j *evaluator) evaluateRepository() {
	repo := j.repos[j.goal.Key]
	if repo == nil {
		j.addFault("repo %s is gone", j.goal.Key.Name)
		return
	}
	if c := HeldRepo(repo); c != nil {
		j.addFault("repo %s: %s", repo.Name, c.Message)
		return
	}
	all := j.bundlesOf(j.goal.Key)
	j.checkRead(repo, all)
	staying := slices.DeleteFunc(slices.Clone(all), func(b *fleet.Bundle) bool { return reading.IsLeaving(repo, b) })
	j.verdict.Bundles = len(staying)
	if !j.verdict.Seen {
		return
	}
	j.verdict.Warnings = repoWarnings(repo, unrenderedOf(staying))
	if len(all) == 0 && len(j.verdict.Faults) == 0 && j.verdict.Trouble == "" {
		j.addWait("no bundle was made from repo %s yet", repo.Name)
	}
	targeted := j.goal.Commit == "" && slices.ContainsFunc(staying, func(b *fleet.Bundle) bool { return b.Status.Summary.DesiredReady > 0 })
	for _, b := range staying {
		if j.isChangedByGoal(b) {
			j.evaluateBundle(b, targeted)
		}
	}
	j.evaluateRemovals(repo, all)
}

// bundlesOf are the Bundles of a GitRepo, by name.
func (j *evaluator) bundlesOf(repo Key) []*fleet.Bundle {
	var all []*fleet.Bundle
	for _, b := range j.bundles {
		if repoOf(b) == repo {
			all = append(all, b)
		}
	}
	return sortedBy(all)
}

// checkRead judges whether the repository was read, at the commit and in the version
// that its spec asks for, and whether its bundles are those of that reading.
func (j *evaluator) checkRead(repo *fleet.GitRepo, own []*fleet.Bundle) {
	st := repo.Status
	j.verdict.Commit = st.Commit
	current := st.ObservedGeneration >= repo.Generation
	at := hasPrefix(st.Commit, j.goal.Commit)
	if j.goal.Commit == "" {
		at = st.Commit != "" && !condition.IsTrue(st.Conditions, fleet.ConditionReconciling)
	}
	why := commitUnseenText(repo, j.goal.Commit)
	if at && current {
		j.verdict.Seen, why = j.proven(repo, own)
	}
	j.checkTrouble(repo, at && current)
	switch {
	case !j.verdict.Seen && len(j.verdict.Faults) == 0 && j.verdict.Trouble == "":
		j.addWait("%s", why)
		j.verdict.Check = commitHint(repo, j.goal.Commit)
	case j.verdict.Seen && j.goal.Commit != "" && isIncomplete(repo) && len(j.verdict.Faults) == 0:
		j.addWait("repo %s was not read completely yet%s", repo.Name, reconciling(repo))
	}
	if r := st.Reading; j.verdict.Seen && r != nil && j.goal.Commit != "" && r.Commit == st.Commit {
		j.verdict.Removed = r.Removed
	}
}

// checkTrouble judges what keeps a repository from being read. What a person has to
// change is a fault. What may pass by itself is waited for, where the repository was
// read before as its spec asks for: where it never was, the spec may be wrong, and only
// a host that is away is waited for. Once the commit is there, it does not matter whether
// newer ones can be had.
func (j *evaluator) checkTrouble(repo *fleet.GitRepo, there bool) {
	st := repo.Status
	_, c := RepoTrouble(repo)
	if c == nil || !isCurrent(c, repo.Generation) || c.ObservedGeneration == 0 && st.ObservedGeneration < repo.Generation {
		return
	}
	polled := j.goal.Commit == "" || there || hasPrefix(st.PollingCommit, j.goal.Commit)
	switch {
	case (c.Type == fleet.ConditionStalled || c.Type == fleet.ConditionReconciling) && !polled && !condition.IsFalse(st.Conditions, fleet.ConditionGitPolling):
		// about an older commit, which the next may put right
	case c.Type == fleet.ConditionDeletionHeld && j.heldRemovalPasses(repo, c):
	case c.Type != fleet.ConditionGitPolling:
		j.addFault("repo %s: %s", repo.Name, c.Message)
	case (st.Commit == "" || st.ObservedGeneration < repo.Generation) && !hostAway(c):
		j.addFault("repo %s cannot be read: %s", repo.Name, c.Message)
	case j.goal.Commit == "" || !there:
		j.verdict.Trouble = fmt.Sprintf("repo %s cannot be read: %s", repo.Name, c.Message)
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
func (j *evaluator) proven(repo *fleet.GitRepo, own []*fleet.Bundle) (seen bool, why string) {
	name, commit := repo.Name, ShortCommit(repo.Status.Commit)
	shows, known := reading.Shows(repo, own)
	switch {
	case known && !shows:
		return false, fmt.Sprintf("the bundles of repo %s are not those of %s: they are being written", name, commit)
	case known, j.goal.Commit == "":
		return true, ""
	}
	j.verdict.Unproven = true
	behind := slices.ContainsFunc(own, func(b *fleet.Bundle) bool {
		return !reading.IsLeaving(repo, b) && b.Labels[fleet.LabelCommit] != repo.Status.Commit
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
// which writes its status after the Bundles. rancher/fleet writes the commit when it
// begins; its conditions name no generation.
func writesStatusLast(repo *fleet.GitRepo) bool {
	c := condition.Find(repo.Status.Conditions, fleet.ConditionGitPolling)
	return c != nil && c.ObservedGeneration > 0
}

// isIncomplete reports whether the last reading left something out that a later one
// of the same commit may add.
func isIncomplete(repo *fleet.GitRepo) bool {
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

// commitHint suggests what to check if a repository has not seen a commit; empty if it has, or
// if it is not read at present.
func commitHint(repo *fleet.GitRepo, commit string) string {
	if commit == "" || repo.Status.Commit == "" || repo.Spec.Revision != "" || hasPrefix(repo.Status.Commit, commit) || hasPrefix(repo.Status.PollingCommit, commit) {
		return ""
	}
	return fmt.Sprintf("its branch %s is not at %s: either a newer commit is there, or this one is not pushed to the repository that repo %s reads",
		cmp.Or(repo.Spec.Branch, "master"), ShortCommit(commit), repo.Name)
}

func commitUnseenText(repo *fleet.GitRepo, commit string) string {
	at := ShortCommit(repo.Status.Commit)
	switch {
	case commit == "" || repo.Status.Commit == "":
		return fmt.Sprintf("repo %s was not read yet%s", repo.Name, reconciling(repo))
	case hasPrefix(repo.Status.Commit, commit):
		return fmt.Sprintf("repo %s is at %s, but was not read yet as its spec asks for%s", repo.Name, at, reconciling(repo))
	case repo.Spec.Revision != "":
		return fmt.Sprintf("repo %s is at %s and stays at revision %s", repo.Name, at, repo.Spec.Revision)
	}
	return fmt.Sprintf("repo %s is at %s%s", repo.Name, at, reconciling(repo))
}
