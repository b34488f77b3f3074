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
func (r Request) otherEpoch() bool {
	return r.Known && r.Object != nil && !r.Agent && r.Mark.ID != "" &&
		r.Record.Key.Manager == r.Mark.ID && r.Record.Epoch < r.Mark.Epoch && r.Record.UID != r.Object.UID
}

// staleCopy reports whether a copied manager asks for something that may be from its
// backup.
func (r Request) staleCopy() bool {
	if r.Order == "" && r.Object.Spec.DeploymentID == r.Record.Spec.DeploymentID {
		return false // it was accepted before
	}
	return !r.heldAsCopy() || r.Record.Held == requestDigest(r.Object)
}

// heldAsCopy reports whether a request of the present epoch is held already.
func (r Request) heldAsCopy() bool { return strings.HasPrefix(r.Record.Held, copiedWord) }

// holdsOther reports whether another request was held before, or none.
func (r Request) holdsOther() bool { return r.otherEpoch() && !r.heldAsCopy() }

// requestDigest returns a digest of what a manager asks for with an object. It leaves
// out the staged version: a rollout may stage it long before it promotes it.
func requestDigest(bd *fleet.BundleDeployment) string {
	return copiedWord + string(bd.UID) + "/" + bd.Spec.DeploymentID + "/" + bd.Annotations[fleet.AnnotationWithdrawn]
}

// heldText returns what the record stores of a held request.
func (r Request) heldText() string {
	if r.otherEpoch() {
		return requestDigest(r.Object)
	}
	return requestText(r.Object)
}
