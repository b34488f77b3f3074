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
func (e *evaluator) evaluateRepository() {
	repo := e.repos[e.goal.Key]
	if repo == nil {
		e.addFault("repo %s is gone", e.goal.Key.Name)
		return
	}
	if c := HeldRepo(repo); c != nil {
		e.addFault("repo %s: %s", repo.Name, c.Message)
		return
	}
	all := e.bundlesOf(e.goal.Key)
	e.checkRead(repo, all)
	staying := slices.DeleteFunc(slices.Clone(all), func(b *fleet.Bundle) bool { return reading.IsLeaving(repo, b) })
	e.verdict.Bundles = len(staying)
	if !e.verdict.Seen {
		return
	}
	e.verdict.Warnings = repoWarnings(repo, unrenderedOf(staying))
	if len(all) == 0 && len(e.verdict.Faults) == 0 && e.verdict.Trouble == "" {
		e.addWait("no bundle was made from repo %s yet", repo.Name)
	}
	targeted := e.goal.Commit == "" && slices.ContainsFunc(staying, func(b *fleet.Bundle) bool { return b.Status.Summary.DesiredReady > 0 })
	for _, b := range staying {
		if e.isChangedByGoal(b) {
			e.evaluateBundle(b, targeted)
		}
	}
	e.evaluateRemovals(repo, all)
}

// bundlesOf are the Bundles of a GitRepo, by name.
func (e *evaluator) bundlesOf(repo Key) []*fleet.Bundle {
	var all []*fleet.Bundle
	for _, b := range e.bundles {
		if repoOf(b) == repo {
			all = append(all, b)
		}
	}
	return sortedBy(all)
}

// checkRead judges whether the repository was read, at the commit and in the version
// that its spec asks for, and whether its bundles are those of that reading.
func (e *evaluator) checkRead(repo *fleet.GitRepo, own []*fleet.Bundle) {
	st := repo.Status
	e.verdict.Commit = st.Commit
	current := st.ObservedGeneration >= repo.Generation
	at := hasPrefix(st.Commit, e.goal.Commit)
	if e.goal.Commit == "" {
		at = st.Commit != "" && !condition.IsTrue(st.Conditions, fleet.ConditionReconciling)
	}
	why := commitUnseenText(repo, e.goal.Commit)
	if at && current {
		e.verdict.Seen, why = e.proven(repo, own)
	}
	e.checkTrouble(repo, at && current)
	switch {
	case !e.verdict.Seen && len(e.verdict.Faults) == 0 && e.verdict.Trouble == "":
		e.addWait("%s", why)
		e.verdict.Check = commitHint(repo, e.goal.Commit)
	case e.verdict.Seen && e.goal.Commit != "" && isIncomplete(repo) && len(e.verdict.Faults) == 0:
		e.addWait("repo %s was not read completely yet%s", repo.Name, reconciling(repo))
	}
	if r := st.Reading; e.verdict.Seen && r != nil && e.goal.Commit != "" && r.Commit == st.Commit {
		e.verdict.Removed = r.Removed
	}
}

// checkTrouble judges what keeps a repository from being read. What a person has to
// change is a fault. What may pass by itself is waited for, where the repository was
// read before as its spec asks for: where it never was, the spec may be wrong, and only
// a host that is away is waited for. Once the commit is there, it does not matter whether
// newer ones can be had.
func (e *evaluator) checkTrouble(repo *fleet.GitRepo, there bool) {
	st := repo.Status
	_, c := RepoTrouble(repo)
	if c == nil || !isCurrent(c, repo.Generation) || c.ObservedGeneration == 0 && st.ObservedGeneration < repo.Generation {
		return
	}
	polled := e.goal.Commit == "" || there || hasPrefix(st.PollingCommit, e.goal.Commit)
	switch {
	case (c.Type == fleet.ConditionStalled || c.Type == fleet.ConditionReconciling) && !polled && !condition.IsFalse(st.Conditions, fleet.ConditionGitPolling):
		// about an older commit, which the next may put right
	case c.Type == fleet.ConditionDeletionHeld && e.heldRemovalPasses(repo, c):
	case c.Type != fleet.ConditionGitPolling:
		e.addFault("repo %s: %s", repo.Name, c.Message)
	case (st.Commit == "" || st.ObservedGeneration < repo.Generation) && !hostAway(c):
		e.addFault("repo %s cannot be read: %s", repo.Name, c.Message)
	case e.goal.Commit == "" || !there:
		e.verdict.Trouble = fmt.Sprintf("repo %s cannot be read: %s", repo.Name, c.Message)
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
func (e *evaluator) proven(repo *fleet.GitRepo, own []*fleet.Bundle) (seen bool, why string) {
	name, commit := repo.Name, ShortCommit(repo.Status.Commit)
	shows, known := reading.Shows(repo, own)
	switch {
	case known && !shows:
		return false, fmt.Sprintf("the bundles of repo %s are not those of %s: they are being written", name, commit)
	case known, e.goal.Commit == "":
		return true, ""
	}
	e.verdict.Unproven = true
	behind := slices.ContainsFunc(own, func(b *fleet.Bundle) bool {
		return !reading.IsLeaving(repo, b) && b.Labels[fleet.LabelCommit] != repo.Status.Commit
	})
	switch {
	case !e.ordered:
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
