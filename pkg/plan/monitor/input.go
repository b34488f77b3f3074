package monitor

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// Resources that a snapshot is made from, as keys of Input.Reach.
const (
	GitRepos    = "gitrepos"
	Bundles     = "bundles"
	Deployments = "bundledeployments"
	Contents    = "contents"
	Clusters    = "clusters"
	Groups      = "clustergroups"
	Secrets     = "secrets"
)

// An Input is what a snapshot is made from.
type Input struct {
	Now time.Time
	// Suspended reports that the whole fleet is suspended: the manager deploys nothing new.
	Suspended bool
	// Narrowed reports that only a part of the workspaces was asked for. A snapshot then has only
	// those Contents that the objects of this part use.
	Narrowed bool
	// Reach says for each resource which namespaces were read. A resource without an entry was
	// not read.
	Reach  map[string]Reach
	Unread []Unread

	GitRepos    []*fleet.GitRepo
	Bundles     []BundleObject
	Deployments []*fleet.BundleDeployment
	Contents    []ContentObject
	Clusters    []ClusterObject
	Groups      []*fleet.ClusterGroup
	Secrets     []SecretObject
	Pods        []*corev1.Pod
	Events      []*corev1.Event
	// Versions are the resource versions of a list that was read several times, in the order of
	// the answers.
	Versions []string
}

// A Reach says which namespaces a list covers.
type Reach struct {
	All        bool
	Namespaces []string
}

// A BundleObject is a Bundle, whose resources may be left out.
type BundleObject struct {
	*fleet.Bundle
	Bytes int64 // of the JSON, see BundleBytes; 0: not known
}

// BundleBytes returns the length of the JSON of a Bundle without its status and managedFields,
// which is what a manager compares with the limit of a Bundle.
func BundleBytes(b *fleet.Bundle) int64 {
	c := *b
	c.Status, c.ManagedFields = fleet.BundleStatus{}, nil
	raw, err := json.Marshal(&c)
	if err != nil {
		return 0
	}
	return int64(len(raw))
}

// A ContentObject is the metadata of a Content.
type ContentObject struct {
	metav1.ObjectMeta
	Bytes int64
}

// A ClusterObject is a Cluster with the last heartbeat of its agent.
type ClusterObject struct {
	*fleet.Cluster
	LastSeen time.Time
	Protocol int // of the agent; 0: rancher/fleet's
}

// A SecretObject is the metadata of a Secret that Fleet wrote for a Bundle or a BundleDeployment.
type SecretObject struct {
	metav1.ObjectMeta
	Type string
	Hash string // of its values, as Bundles and BundleDeployments name it
}

// SecretOf returns what a snapshot needs of a Secret. It holds no data.
func SecretOf(s *corev1.Secret) SecretObject {
	out := SecretObject{ObjectMeta: s.ObjectMeta, Type: string(s.Type)}
	out.Annotations, out.ManagedFields = nil, settleFields(s.ManagedFields)
	switch s.Type {
	case fleet.SecretTypeBundleValues:
		out.Hash = options.BundleValuesHash(s.Data)
	case fleet.SecretTypeBundleDeployment:
		out.Hash = options.DeploymentValuesHash(s.Data[fleet.KeyValues], s.Data[fleet.KeyStagedValues])
	}
	return out
}

// settleFields returns managedFields without the fields.
func settleFields(list []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, m := range list {
		m.FieldsV1 = nil
		out = append(out, m)
	}
	return out
}

// SecretTypes are the types of Secrets that a snapshot lists.
func SecretTypes() []string {
	return []string{fleet.SecretTypeBundleValues, fleet.SecretTypeBundleDeployment, fleet.SecretTypeOCIStorage, fleet.SecretTypeHelmOpsAccess}
}

// covers reports whether the objects of a resource in a namespace were read.
func (in *Input) covers(resource, namespace string) bool {
	r, ok := in.Reach[resource]
	if !ok || r.All {
		return ok
	}
	return slices.Contains(r.Namespaces, namespace)
}

// Grace is how long a change may be under way before it is a fault.
const Grace = 5 * time.Minute

// changedAt returns when the object was last written apart from its status.
func changedAt(o metav1.Object) time.Time {
	last := o.GetCreationTimestamp().Time
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

// isSettled reports whether none of the objects was written within Grace.
func (in *Input) isSettled(objects ...metav1.Object) bool {
	for _, o := range objects {
		if in.Now.Sub(changedAt(o)) < Grace {
			return false
		}
	}
	return true
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// bundleOf returns the Bundle of a BundleDeployment.
func bundleOf(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
}

// clusterOf returns the Cluster of a BundleDeployment.
func clusterOf(bd *fleet.BundleDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
}

// isLeaving reports whether a Bundle or BundleDeployment is being removed.
func isLeaving(o metav1.Object) bool {
	a := o.GetAnnotations()
	return o.GetDeletionTimestamp() != nil || a[fleet.AnnotationWithdrawn] != "" || a[fleet.AnnotationPrune] != ""
}
