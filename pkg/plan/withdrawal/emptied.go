package withdrawal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ReasonEmptied is why nothing is deployed to a cluster that a person wants to be
// empty, in words.
const ReasonEmptied = "a person has ordered that everything be withdrawn from the cluster (annotation " + fleet.AnnotationUninstall + ")"

// IsEmptied reports whether a person wants nothing to be deployed to a cluster any more.
func IsEmptied(cluster metav1.Object) bool {
	return cluster.GetAnnotations()[fleet.AnnotationUninstall] != ""
}
