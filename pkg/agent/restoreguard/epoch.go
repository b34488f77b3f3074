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

// otherEpoch reports whether the agent accepted a deployment before its manager was
// copied to another cluster, and the present object is not the accepted one. The
// agent's own deployment is excluded: it follows from the manager's settings, not from
// its backup.
func (q Request) otherEpoch() bool {
	return q.Known && q.Object != nil && !q.Agent && q.Mark.ID != "" &&
		q.Record.Key.Manager == q.Mark.ID && q.Record.Epoch < q.Mark.Epoch && q.Record.UID != q.Object.UID
}

// staleCopy reports whether a copied manager asks for something that may be from its
// backup.
func (q Request) staleCopy() bool {
	if q.Order == "" && q.Object.Spec.DeploymentID == q.Record.Spec.DeploymentID {
		return false // it was accepted before
	}
	return !q.heldAsCopy() || q.Record.Held == requestDigest(q.Object)
}

// heldAsCopy reports whether a request of the present epoch is held already.
func (q Request) heldAsCopy() bool { return strings.HasPrefix(q.Record.Held, copiedWord) }

// holdsOther reports whether another request was held before, or none.
func (q Request) holdsOther() bool { return q.otherEpoch() && !q.heldAsCopy() }

// requestDigest returns a digest of what a manager asks for with an object. It leaves
// out the staged version: a rollout may stage it long before it promotes it.
func requestDigest(bd *fleet.BundleDeployment) string {
	return copiedWord + string(bd.UID) + "/" + bd.Spec.DeploymentID + "/" + bd.Annotations[fleet.AnnotationWithdrawn]
}

// heldText returns what the record stores of a held request.
func (q Request) heldText() string {
	if q.otherEpoch() {
		return requestDigest(q.Object)
	}
	return requestText(q.Object)
}
