package registration

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// NoNamespaceYet is why nothing is written for a Cluster that has just been made.
const NoNamespaceYet = "the cluster has no namespace for deployments yet"

// Owners are the Clusters, as "namespace/name", that the namespaces with label
// fleet.LabelManaged name as their own, by the name of the namespace. A namespace that
// is being deleted is not in it.
type Owners map[string]string

// PlaceOf returns the namespace that a manager may write a Cluster's BundleDeployments to,
// or why there is none. owners is nil for the manager that marks Clusters itself: it trusts
// its own annotation only.
//
// rancher/fleet's manager sets no annotation on Clusters. A manager that leaves Clusters
// to it writes to the namespace whose name follows from the Cluster's, and only while
// that namespace names this Cluster and the Cluster's status names that namespace. So
// neither a writer of the status nor a writer of another namespace chooses the place.
func PlaceOf(c *fleet.Cluster, owners Owners) (namespace, why string) {
	own, status := c.Namespace+"/"+c.Name, c.Status.Namespace
	if asked := c.Annotations[AnnotationDeploymentNamespace]; asked != "" || owners == nil {
		ns, ok := DeploymentNamespace(c)
		switch owner := owners[ns]; {
		case !ok:
			return "", NoNamespaceYet
		case owner != "" && owner != own:
			return "", takenMessage(ns, owner)
		}
		return ns, ""
	}
	computed := naming.ClusterNamespace(c.Namespace, c.Name)
	switch owner := owners[computed]; {
	case status == "":
		return "", NoNamespaceYet
	case status != computed:
		return "", fmt.Sprintf("the Cluster's status names namespace %q, and by the naming rule its namespace is %q", status, computed)
	case owner == "":
		return "", fmt.Sprintf("namespace %q is not there, or has no label %s=%s and annotations %s and %s that name this Cluster",
			computed, fleet.LabelManaged, True, fleet.AnnotationCluster, fleet.AnnotationClusterNamespace)
	case owner != own:
		return "", takenMessage(computed, owner)
	}
	return computed, ""
}

func takenMessage(namespace, owner string) string {
	return fmt.Sprintf("namespace %q belongs to Cluster %s", namespace, owner)
}
