package restoreguard

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A manager whose objects were restored into another cluster has a later epoch
// than the one that this agent's records were accepted from. Every object has
// another UID then, and versions of two API servers cannot be compared. So what
// such a manager asks for first is held, if it is not what was accepted before,
// until it asks for something else, or for release.BehindLimit.

// copiedWord begins what is kept of such a request, unlike a word that a restored
// API server has said.
const copiedWord = "copied/"

// otherEpoch reports whether a deployment was accepted from the same manager before its
// objects turned up in another cluster, and its present object was not. The agent's own
// deployment is excluded: it follows from the manager's present settings, not from its
// backup.
func (q Request) otherEpoch() bool {
	return q.Known && q.Object != nil && !q.Agent && q.Mark.ID != "" &&
		q.Record.Key.Manager == q.Mark.ID && q.Record.Epoch < q.Mark.Epoch && q.Record.UID != q.Object.UID
}

// staleCopy reports whether a manager that was copied asks for something that may be
// from the past.
func (q Request) staleCopy() bool {
	if q.Order == "" && q.Object.Spec.DeploymentID == q.Record.Spec.DeploymentID {
		return false // it was accepted before
	}
	return !q.heldAsCopy() || q.Record.Held == copyOf(q.Object)
}

// heldAsCopy reports whether a request of the present epoch was held already.
func (q Request) heldAsCopy() bool { return strings.HasPrefix(q.Record.Held, copiedWord) }

// holdsAnew reports whether what was held before, if anything, was something else.
func (q Request) holdsAnew() bool { return q.otherEpoch() && !q.heldAsCopy() }

// copyOf returns in short what a manager asks for with an object. The staged version is
// no part of it: a rollout may stage the next version long before it promotes it.
func copyOf(bd *fleet.BundleDeployment) string {
	return copiedWord + string(bd.UID) + "/" + bd.Spec.DeploymentID + "/" + bd.Annotations[fleet.AnnotationWithdrawn]
}

// word is what is kept of what is held.
func (q Request) word() string {
	if q.otherEpoch() {
		return copyOf(q.Object)
	}
	return wordOf(q.Object)
}
