package imports

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// Reasons of the condition Imported.
const (
	// ReasonSecretMissing: the Secret that the Cluster names is not there.
	ReasonSecretMissing = "KubeconfigMissing"
	// ReasonSecretForbidden: the Cluster may not use that Secret.
	ReasonSecretForbidden = "KubeconfigNotAllowed"
	// ReasonNoAddress: nobody says where agents reach the manager.
	ReasonNoAddress = "NoAPIServerURL"
	// ReasonUnreachable: the cluster's API server does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonUntrusted: it shows a certificate that is not to be trusted.
	ReasonUntrusted = "CertificateRefused"
	// ReasonRefused: it does not accept the credential, or grants it too little.
	ReasonRefused = "CredentialRefused"
	// ReasonForeign: something of the agent's names is somebody else's.
	ReasonForeign = "ForeignAgent"
	// ReasonOwnCluster: the kubeconfig leads to the manager's own cluster.
	ReasonOwnCluster = "OwnCluster"
	// ReasonSilent: the agent was installed and has not registered.
	ReasonSilent = "NotRegistered"
)

// sharedNamespaces may hold kubeconfigs of Clusters of other namespaces. Source:
// fleet-api, Cluster.spec.kubeConfigSecretNamespace.
var sharedNamespaces = map[string]bool{
	fleet.NamespaceLocal: true, fleet.NamespaceDefault: true,
	"fleet-local-clusters-system": true, "fleet-default-clusters-system": true,
	fleet.NamespaceSystem: true, fleet.NamespaceRegistration: true,
	"fleet-system": true, "fleet-clusters-system": true, "fleet-system-clusters-system": true,
	"cattle-fleet-system-clusters-system": true,
}

// sharedPrefix begins the names of further namespaces that may.
const sharedPrefix = "cluster-"

// NamespaceOfSecret is where the Secret of a Cluster stands. A namespace that
// can hold none for it is a permanent error.
func NamespaceOfSecret(c *fleet.Cluster) (string, error) {
	in := c.Spec.KubeConfigSecretNamespace
	switch {
	case in == "" || in == c.Namespace:
		return c.Namespace, nil
	case sharedNamespaces[in] || strings.HasPrefix(in, sharedPrefix):
		return in, nil
	}
	return "", fault.PermanentError(ReasonSecretForbidden, fmt.Errorf(
		"use kubeconfig of namespace %q: not allowed; put the Secret into namespace %q and leave kubeConfigSecretNamespace empty", in, c.Namespace))
}

// A Proof is what Rancher's objects say about the Secret of a cluster that it
// has provisioned. Members of a workspace cannot write them.
type Proof struct {
	Secret    string // status.clientSecretName of the provisioning Cluster in the Secret's namespace
	Cluster   string // its status.clusterName: the management Cluster
	Workspace string // spec.fleetWorkspaceName of that one
}

// MayUse tells whether a Cluster may use a Secret; nil if it may.
//
// Whoever may write Clusters in one workspace must not get at the clusters of
// another one through its kubeconfigs. So a Secret of another namespace either
// names the Cluster that it is for, in the annotations fleet.cattle.io/cluster
// and fleet.cattle.io/cluster-namespace, or Rancher's objects say so.
func MayUse(c *fleet.Cluster, secret metav1.Object, proof Proof) error {
	if secret.GetNamespace() == c.Namespace {
		return nil
	}
	a := secret.GetAnnotations()
	if a[fleet.AnnotationCluster] == c.Name && a[fleet.AnnotationClusterNamespace] == c.Namespace {
		return nil
	}
	if proof.Secret == secret.GetName() && proof.Cluster != "" && proof.Cluster == c.Labels[LabelRancherCluster] && proof.Workspace == c.Namespace {
		return nil
	}
	return fault.PermanentError(ReasonSecretForbidden, fmt.Errorf(
		"use kubeconfig %q of namespace %q: the Secret is not meant for this Cluster; annotate it with %s=%s and %s=%s",
		secret.GetName(), secret.GetNamespace(), fleet.AnnotationCluster, c.Name, fleet.AnnotationClusterNamespace, c.Namespace))
}

// LabelRancherCluster on a Cluster is the name of Rancher's management Cluster.
const LabelRancherCluster = "management.cattle.io/cluster-name"
