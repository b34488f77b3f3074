package workspace

import (
	"fmt"
	"time"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// annotationOwnerKind is the kind of what Rancher's handlers have made an object of.
const annotationOwnerKind = "objectset.rio.cattle.io/owner-gvk"

// ProvisionedFrom returns the provisioning Cluster, "<namespace>/<name>", that a management
// Cluster was made of; empty for one that came first, or that bears no mark.
//
// The workspace of the management Cluster says nothing about that: the cluster may
// have moved, and its provisioning Cluster stays where it was made.
func ProvisionedFrom(m *management.Cluster) string {
	kind := fmt.Sprintf("%s, Kind=Cluster", provisioning.GroupVersion)
	name, namespace := m.Annotations[annotationSetOwner], m.Annotations[annotationSetOwnerNamespace]
	if Legacy(m.Name) || m.Annotations[annotationOwnerKind] != kind || name == "" || namespace == "" {
		return ""
	}
	return namespace + "/" + name
}

// ForsakenTimeout is how long the provisioning Cluster of a management Cluster may be
// missing without anybody having asked for that: it may be about to be restored from a
// backup.
const ForsakenTimeout = 10 * time.Minute

// IsForsaken reports whether a management Cluster is deleted because the provisioning Cluster
// that it was made from is gone: the manager saw its deletion (asked), or it has been
// missing for ForsakenTimeout. left is when to look again; 0: only when something changes.
func IsForsaken(m *management.Cluster, asked bool, missing time.Duration) (goes bool, left time.Duration) {
	switch {
	case ProvisionedFrom(m) == "" || m.DeletionTimestamp != nil:
		return false, 0
	case asked || missing >= ForsakenTimeout:
		return true, 0
	}
	return false, ForsakenTimeout - missing
}
