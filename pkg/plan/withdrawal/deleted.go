package withdrawal

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Protocol is how the manager that wrote a BundleDeployment last orders its removal.
type Protocol int

// Protocols.
const (
	// Unclear is that of a BundleDeployment that does not say who wrote it.
	Unclear Protocol = iota
	// ByMark is that of this project's managers: AnnotationWithdrawn is the order.
	ByMark
	// ByDeletion is that of rancher/fleet's manager: it deletes the object.
	ByDeletion
)

// ProtocolOf reads the protocol off the labels of a BundleDeployment. Every manager
// writes all of them with each change, and only this project's add LabelBucket.
// Annotations say nothing here: rancher/fleet leaves those of others.
func ProtocolOf(bd *fleet.BundleDeployment) Protocol {
	l := bd.Labels
	switch {
	case l[fleet.LabelBucket] != "":
		return ByMark
	case l[fleet.LabelManaged] != "" && l[fleet.LabelBundleName] != "" && l[fleet.LabelCluster] != "":
		return ByDeletion
	}
	return Unclear
}

// WatchedDeletion reports whether the deletion of a BundleDeployment is an order, where the
// agent has watched it. last is its last known state. marks is true where the manager of
// the Cluster has said that it orders by marks; it decides for a BundleDeployment that does
// not say who wrote it.
func WatchedDeletion(last *fleet.BundleDeployment, marks bool) bool {
	switch ProtocolOf(last) {
	case ByMark:
		return false
	case ByDeletion:
		return true
	case Unclear:
	}
	return !marks
}

// A LastState is what an agent keeps of a BundleDeployment whose manager orders removals by
// deleting. If the object is missing later, it distinguishes an order from a loss.
type LastState struct {
	// Deleted is true where it had a deletionTimestamp.
	Deleted bool `json:"deleted,omitempty"`
	// Witness is another BundleDeployment of such a manager in the same list. Where it
	// is still there, the list is the same one.
	Witness    string    `json:"witness,omitempty"`
	WitnessUID types.UID `json:"witnessUID,omitempty"`
}

// LastStateOf returns what to keep of a BundleDeployment; nil for one whose absence never
// is an order: another manager wrote it, or it has neither a deletionTimestamp nor the
// reference's finalizer. list returns what its manager has, before is what was kept of it
// until now: a witness stays as long as it is there.
func LastStateOf(bd *fleet.BundleDeployment, list func() []*fleet.BundleDeployment, before *LastState) *LastState {
	deleted := bd.DeletionTimestamp != nil
	if ProtocolOf(bd) != ByDeletion || !deleted && !slices.Contains(bd.Finalizers, fleet.FinalizerBundleDeployment) {
		return nil
	}
	out := &LastState{Deleted: deleted}
	var best *fleet.BundleDeployment
	for _, other := range list() {
		switch {
		case other.Name == bd.Name || other.DeletionTimestamp != nil || ProtocolOf(other) != ByDeletion:
		case before != nil && other.Name == before.Witness && other.UID == before.WitnessUID:
			out.Witness, out.WitnessUID = other.Name, other.UID
			return out
		case best == nil || older(other, best):
			best = other
		}
	}
	if best != nil {
		out.Witness, out.WitnessUID = best.Name, best.UID
	}
	return out
}

// older reports whether a was made before b.
func older(a, b *fleet.BundleDeployment) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// An Absence is that a BundleDeployment is not in the list of its manager.
type Absence struct {
	// Last is the last known state of it; nil: none was kept.
	Last *LastState
	// Version is its resourceVersion when it was accepted.
	Version string
	// ListVersion is the resourceVersion of the list.
	ListVersion string
	// Restored is true where the list is known to be that of a restored manager.
	Restored bool
	// Witness is the object in the list with the name of the witness; nil: there is none.
	Witness *fleet.BundleDeployment
}

// Ordered reports whether the absence is an order. A deletionTimestamp is never taken back,
// so an object that had one was deleted. Only rancher/fleet's manager takes off its
// finalizer, when the object is deleted. But an object may also be missing because the list
// is another one: of another manager, of a namespace that was made again, of an API server
// that was restored, or the empty one of a proxy. So the absence is an order only in a list
// that is newer than the object and that still holds the witness, written by a manager that
// orders by deleting.
func (a Absence) Ordered() bool {
	switch {
	case a.Last == nil:
		return false
	case a.Last.Deleted:
		return true
	case a.Restored || a.Witness == nil || a.Witness.UID != a.Last.WitnessUID || ProtocolOf(a.Witness) != ByDeletion:
		return false
	}
	was, err1 := strconv.ParseUint(a.Version, 10, 64)
	now, err2 := strconv.ParseUint(a.ListVersion, 10, 64)
	return err1 == nil && err2 == nil && now > was
}
