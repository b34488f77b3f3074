package workspace

import fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

// setProvisioning is the mark of provisioning Clusters that Rancher has made of
// management Clusters.
const setProvisioning = "provisioning-cluster-create"

// annotationSetOwnerNamespace is the namespace of the object that another was
// generated for.
const annotationSetOwnerNamespace = "objectset.rio.cattle.io/owner-namespace"

// IsRancherManaged reports whether Rancher's handlers keep an object, by its annotations. In
// the mode Auto such an object is Rancher's also while Rancher is away: it is not
// written and not deleted, for it is as Rancher has left it, and Rancher goes on with
// it when it is back. In the mode Standalone nothing is Rancher's.
func IsRancherManaged(mode Mode, annotations map[string]string) bool {
	set := annotations[fleet.AnnotationObjectSetID]
	return mode != Standalone && (OfRancher(set) || set == setProvisioning)
}

// RancherMapped returns "<namespace>/<name>" of the provisioning Cluster that Rancher has
// made a Fleet Cluster of, by the annotations of that; empty where it has not.
func RancherMapped(annotations map[string]string) string {
	if annotations[fleet.AnnotationObjectSetID] != setCluster || annotations[annotationSetOwner] == "" {
		return ""
	}
	return annotations[annotationSetOwnerNamespace] + "/" + annotations[annotationSetOwner]
}
