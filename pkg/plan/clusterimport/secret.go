package clusterimport

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of the condition Imported.
const (
	// ReasonSecretMissing: the Secret that the Cluster names is not there.
	ReasonSecretMissing = "KubeconfigMissing"
	// ReasonSecretForbidden: the Cluster may not use that Secret.
	ReasonSecretForbidden = "KubeconfigNotAllowed"
	// ReasonNoAddress: neither the settings nor the Secret say where agents reach the
	// manager.
	ReasonNoAddress = "NoAPIServerURL"
	// ReasonUnreachable: the cluster's API server does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonUntrusted: it shows a certificate that is not to be trusted.
	ReasonUntrusted = "CertificateRefused"
	// ReasonRefused: it does not accept the credential, or grants it too little.
	ReasonRefused = "CredentialRefused"
	// ReasonDenied: an admission webhook or a policy there denies the agent's objects.
	ReasonDenied = "RequestDenied"
	// ReasonForeign: an object with a name of the agent's belongs to another owner.
	ReasonForeign = "ForeignAgent"
	// ReasonOwnCluster: the kubeconfig leads to the manager's own cluster.
	ReasonOwnCluster = "OwnCluster"
	// ReasonTooLarge: it sends more than is read from it.
	ReasonTooLarge = "AnswerTooLarge"
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

// NamespaceOfSecret returns where the Secret of a Cluster stands.
func NamespaceOfSecret(c *fleet.Cluster) string {
	if in := c.Spec.KubeConfigSecretNamespace; in != "" {
		return in
	}
	return c.Namespace
}

// A Proof is what Rancher's objects say about the Secret of a cluster that it
// has provisioned. Members of a workspace cannot write them.
type Proof struct {
	Secret    string // status.clientSecretName of the provisioning Cluster in the Secret's namespace
	Cluster   string // its status.clusterName: the management Cluster
	Workspace string // spec.fleetWorkspaceName of that one
}

// appliesTo reports whether a proof is about the Secret that a Cluster names.
func (p Proof) appliesTo(c *fleet.Cluster) bool {
	return p.Secret != "" && p.Secret == c.Spec.KubeConfigSecret && p.Workspace == c.Namespace &&
		p.Cluster != "" && p.Cluster == c.Labels[fleet.LabelManagementCluster]
}

// MayRead returns nil if the manager may read the Secret that a Cluster names. It may read
// one in the Cluster's own namespace, and in the namespaces that may hold Secrets for
// others, for which it then calls MayUse. Elsewhere only Rancher's objects permit it:
// Rancher's clusters keep their kubeconfig where they were provisioned when they move to
// another workspace. The answer does not reveal whether there is such a Secret.
func MayRead(c *fleet.Cluster, proof Proof) error {
	in := NamespaceOfSecret(c)
	if in == c.Namespace || sharedNamespaces[in] || strings.HasPrefix(in, sharedPrefix) || proof.appliesTo(c) {
		return nil
	}
	return forbidden(c, fmt.Errorf(
		"use kubeconfig of namespace %q: not allowed, since no cluster of Rancher's there is in workspace %q and has it; "+
			"put the Secret into namespace %q and leave kubeConfigSecretNamespace empty", in, c.Namespace, c.Namespace))
}

// forbiddenRetry is when the manager checks again whether a cluster of Rancher's may use a
// Secret, because no watch reports changes of Rancher's objects.
const forbiddenRetry = time.Minute

func forbidden(c *fleet.Cluster, err error) error {
	if c.Labels[fleet.LabelManagementCluster] == "" {
		return reconcile.TerminalError(ReasonSecretForbidden, err)
	}
	return reconcile.RequeueError(ReasonSecretForbidden, forbiddenRetry, err)
}

// MayUse returns nil if a Cluster may use a Secret that it may read.
//
// A user who may write Clusters in one workspace must not get access to the clusters of
// another workspace through its kubeconfigs. So either a Secret of another namespace names
// the Cluster that it is for, in the annotations fleet.cattle.io/cluster and
// fleet.cattle.io/cluster-namespace, or Rancher's objects do.
func MayUse(c *fleet.Cluster, secret metav1.Object, proof Proof) error {
	if secret.GetNamespace() == c.Namespace || proof.appliesTo(c) {
		return nil
	}
	a := secret.GetAnnotations()
	if a[fleet.AnnotationCluster] == c.Name && a[fleet.AnnotationClusterNamespace] == c.Namespace {
		return nil
	}
	return forbidden(c, fmt.Errorf(
		"use kubeconfig %q of namespace %q: the Secret is not meant for this Cluster; annotate it with %s=%s and %s=%s",
		secret.GetName(), secret.GetNamespace(), fleet.AnnotationCluster, c.Name, fleet.AnnotationClusterNamespace, c.Namespace))
}
