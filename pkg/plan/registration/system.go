package registration

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// True is the value of labels that say yes.
const True = "true"

// AnnotationDeploymentNamespace on a Cluster is the namespace of its
// BundleDeployments, as the manager chose it. status.namespace says the same
// to readers, but an agent may write the status of its own Cluster, and it may
// not write metadata: decisions follow this annotation.
const AnnotationDeploymentNamespace = "fleet.cattle.io/deployment-namespace"

// A System is one manager: where it runs, and its installation id.
type System struct {
	Namespace string
	ManagerID string
}

// RegistrationNamespace returns where the manager keeps the accounts of agents and hands
// over their credentials.
func (s System) RegistrationNamespace() string {
	return naming.SystemRegistrationNamespace(s.Namespace)
}

// labels are those of everything that the manager makes and may clean up.
func (s System) labels() map[string]string {
	return map[string]string{fleet.LabelManaged: True, fleet.LabelManagerID: s.ManagerID}
}

// DeploymentNamespace returns the namespace that the manager may write a Cluster's
// BundleDeployments to. It is empty and false where the Cluster has none yet, or where its
// status names another than the manager chose: nothing is written then.
func DeploymentNamespace(c *fleet.Cluster) (string, bool) {
	if ns := c.Annotations[AnnotationDeploymentNamespace]; ns != "" && c.Status.Namespace == ns {
		return ns, true
	}
	return "", false
}

// External reports whether another program manages the agent of a Cluster or answers a
// request: the manager leaves both alone.
func External(o metav1.Object) bool {
	return o.GetLabels()[fleet.LabelClusterManagement] != ""
}
