// Package view decides what a user sees of a fleet: which state a line shows and since
// when, what needs attention, what moves, and what a wait means, for what it waits and when
// it is over.
//
// It reads objects as the manager and the agents write them and has no other source. The
// same objects and the same time give the same answer.
package view

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Fleet is what the user may see of a fleet at one moment. Deployments are needed only to
// wait.
type Fleet struct {
	Repositories []*fleet.GitRepo
	HelmOps      []*fleet.HelmOp
	Bundles      []*fleet.Bundle
	Clusters     []*fleet.Cluster
	Deployments  []*fleet.BundleDeployment
	// Ordered reports that the lists were read one after the other, each at its
	// newest: repositories, HelmOps, bundles, then deployments. As a status is written
	// after what it speaks of, each list shows all that the ones before speak of.
	Ordered bool
	// Shards are the managers of shards that objects belong to, by id, as far as they
	// were looked for; the default manager's is "".
	Shards map[string]Manager
	// HelmOpsHidden reports that the user may not list HelmOps.
	HelmOpsHidden bool
}

// A Key is the workspace and the name of an object.
type Key = types.NamespacedName

func keyOf(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// BundleOf returns the Bundle that a deployment was made from.
func BundleOf(bd *fleet.BundleDeployment) Key {
	return Key{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}
}

// ClusterOf returns the Cluster that a deployment is for.
func ClusterOf(bd *fleet.BundleDeployment) Key {
	return Key{Namespace: bd.Labels[fleet.LabelClusterNamespace], Name: bd.Labels[fleet.LabelCluster]}
}

// repoOf is the GitRepo that a Bundle was made from; it has no name where the
// Bundle was made otherwise.
func repoOf(b *fleet.Bundle) Key {
	return Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelRepoName]}
}

// An owner is the object that a Bundle was made from.
type owner struct {
	kind string // GitRepo or HelmOp
	key  Key
}

// ownerOf returns the HelmOp or the GitRepo that a Bundle was made from; it is a GitRepo
// without a name where the Bundle was made otherwise.
func ownerOf(b *fleet.Bundle) owner {
	if name := b.Labels[fleet.LabelHelmOpName]; name != "" {
		return owner{"HelmOp", Key{Namespace: b.Namespace, Name: name}}
	}
	return owner{"GitRepo", repoOf(b)}
}

// parseKey reads "<workspace>/<name>".
func parseKey(s string) Key {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return Key{Name: s}
	}
	return Key{Namespace: namespace, Name: name}
}

// IsLeaving reports whether an object is being removed: it is deleted, or a
// deployment that was withdrawn.
func IsLeaving(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil || o.GetAnnotations()[fleet.AnnotationWithdrawn] != ""
}

// List joins names as people do: at most limit of them, then how many more.
func List(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:limit], ", ") + " and " + countText(len(names)-limit) + " more"
}

// sortedBy returns the list in order of its keys.
func sortedBy[T metav1.Object](list []T) []T {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b T) int { return compareKeys(keyOf(a), keyOf(b)) })
	return out
}
