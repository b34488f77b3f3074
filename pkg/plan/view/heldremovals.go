package view

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// heldRemovalPasses reports whether a removal that a GitRepo holds needs no user for the goal, and
// adds what the goal waits for instead. That is so if the hold is of another reading than
// the awaited one, if its list is approved, or if the manager has not judged it again since
// the reading took it back. c is the condition that says that it is held.
func (e *evaluator) heldRemovalPasses(repo *fleet.GitRepo, c *fleet.Condition) bool {
	switch {
	case HeldRepo(repo) != nil: // it is deleted, and reads nothing more
		return false
	case e.goal.Commit != "" && !e.verdict.Seen: // read says what is waited for
	case approved(repo.Annotations, c):
		e.addWait("repo %s: %s", repo.Name, Approval(repo, repo.Status.Conditions))
	case e.isHeldListOutdated(repo):
		e.addWait("repo %s: the manager has not judged again what it holds", repo.Name)
	default:
		return false
	}
	return true
}

// approved reports whether a person has approved the list that a condition says is held.
// The condition ends with the hash of the list.
func approved(annotations map[string]string, c *fleet.Condition) bool {
	hash := annotations[fleet.AnnotationApproveDeletion]
	return hash != "" && strings.HasSuffix(c.Message, " "+hash)
}

// Approval says that a user has approved the held removal of an object, and that the
// manager has not begun it. It is empty where nothing is held, or approved.
func Approval(o metav1.Object, list []fleet.Condition) string {
	c := condition.Find(list, fleet.ConditionDeletionHeld)
	if c == nil || c.Status != corev1.ConditionTrue || !approved(o.GetAnnotations(), c) {
		return ""
	}
	return fmt.Sprintf("removal %s is approved and has not begun", o.GetAnnotations()[fleet.AnnotationApproveDeletion])
}

// HeldRemoval returns why a Bundle that its GitRepo does not have any more waits for a
// person before it is removed: a condition of the GitRepo. It is nil where the Bundle
// stays, or is being deleted.
func HeldRemoval(repo *fleet.GitRepo, b *fleet.Bundle) *fleet.Condition {
	if repo == nil || b.DeletionTimestamp != nil || !reading.IsLeaving(repo, b) {
		return nil
	}
	c := condition.Find(repo.Status.Conditions, fleet.ConditionDeletionHeld)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil
	}
	return c
}

// isHeldListOutdated reports whether the list that a GitRepo holds is known not to be what is asked
// for now: a Bundle that it names stays, was changed since the manager worked on it, or
// keeps no release back. The manager judges a GitRepo a second after its Bundles, and
// takes the list off before the condition.
func (e *evaluator) isHeldListOutdated(repo *fleet.GitRepo) bool {
	_, _, lines := withdrawal.ReadText(repo.Annotations[fleet.AnnotationDeletionHeld])
	for _, line := range lines {
		name, isBundle := strings.CutPrefix(line, "bundle ")
		name, _, replaced := strings.Cut(name, ": ")
		b := e.bundles[Key{Namespace: repo.Namespace, Name: name}]
		if isBundle && b != nil && (replaced && (isBehindSpec(b) || keepsNothing(b)) || !replaced && !reading.IsLeaving(repo, b)) {
			return true
		}
	}
	return len(lines) == 0
}

// keepsNothing reports whether every deployment of a Bundle has the version that it is to
// have: where a release would be replaced, it keeps the one before, and is not Ready.
func keepsNothing(b *fleet.Bundle) bool {
	return b.Status.Summary.Ready == b.Status.Summary.DesiredReady
}

// HeldChange returns why a Bundle that stays waits for a person before it loses deployments
// or replaces releases; nil where it does not, a person has approved it, or the manager has
// not judged it again since that was changed.
func HeldChange(b *fleet.Bundle) *fleet.Condition {
	c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld)
	if b.DeletionTimestamp != nil || c == nil || c.Status != corev1.ConditionTrue || approved(b.Annotations, c) || isBehindSpec(b) || isHeldListUnchecked(b) {
		return nil
	}
	return c
}

// isHeldListUnchecked reports whether a Bundle holds a list that is known not to be what is asked for
// now: no deployment leaves and no release is kept, or the list is taken off. The manager
// writes first what leaves, then the list, then the condition.
func isHeldListUnchecked(b *fleet.Bundle) bool {
	return b.Annotations[fleet.AnnotationDeletionHeld] == "" ||
		!condition.IsTrue(b.Status.Conditions, fleet.ConditionWithdrawing) && keepsNothing(b)
}

// checkRemovals judges what a Bundle that stays is about to lose, and reports whether that waits
// for a user. The manager judges a withdrawal a second after it begins; until then the
// deployments look as if they were wanted.
func (e *evaluator) checkRemovals(b *fleet.Bundle) (held bool) {
	list := b.Status.Conditions
	leaves := condition.Find(list, fleet.ConditionWithdrawing)
	switch c := HeldChange(b); {
	case c != nil:
		e.addFault("bundle %s: %s", b.Name, c.Message)
		return true
	case isBehindSpec(b): // bundle says what is waited for
	case Approval(b, list) != "":
		e.addWait("bundle %s: %s", b.Name, Approval(b, list))
	case condition.IsTrue(list, fleet.ConditionDeletionHeld):
		e.addWait("bundle %s: the manager has not judged again what it holds", b.Name)
	case condition.IsTrue(list, fleet.ConditionWithdrawing) && len(e.leaving[keyOf(b)]) == 0:
		e.addWait("bundle %s: %s", b.Name, leaves.Message)
	}
	return false
}
