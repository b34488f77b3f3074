// Package leftover decides which objects of rancher/fleet (the reference) have no use any
// more after this project's manager has replaced the reference's. An object without the
// reference's own marks is never left over, and neither is one with the mark of a manager
// of this project.
package leftover

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Annotations of Rancher's wrangler, the library with which the reference applies sets of
// objects. They name the object that a set belongs to; the format of the kind is that of
// schema.GroupVersionKind.String.
const (
	annotationOwnerKind      = "objectset.rio.cattle.io/owner-gvk"
	annotationOwnerName      = "objectset.rio.cattle.io/owner-name"
	annotationOwnerNamespace = "objectset.rio.cattle.io/owner-namespace"
)

// Kinds for which the reference makes accounts and rights.
const (
	KindRegistration      = "ClusterRegistration"
	KindRegistrationToken = "ClusterRegistrationToken"
)

// An Owner is the object for which the reference made another one.
type Owner struct {
	Kind string // KindRegistration or KindRegistrationToken
	types.NamespacedName
}

// OwnerOf returns the ClusterRegistration or ClusterRegistrationToken for which the
// reference made an account, a right or a Secret. It returns false for an object that the
// reference did not make for one, and for one that a manager of this project has made or
// taken over.
func OwnerOf(o metav1.Object) (Owner, bool) {
	labels, a := o.GetLabels(), o.GetAnnotations()
	if labels[fleet.LabelManaged] != registration.True || labels[fleet.LabelManagerID] != "" {
		return Owner{}, false
	}
	for _, kind := range []string{KindRegistration, KindRegistrationToken} {
		if a[annotationOwnerKind] != fleet.GroupVersion.WithKind(kind).String() {
			continue
		}
		owner := Owner{kind, types.NamespacedName{Namespace: a[annotationOwnerNamespace], Name: a[annotationOwnerName]}}
		return owner, owner.Namespace != "" && owner.Name != ""
	}
	return Owner{}, false
}

// A Registration is a ClusterRegistration that is left over, and why.
type Registration struct {
	Request *fleet.ClusterRegistration
	// Cluster is the Cluster of the request.
	Cluster types.NamespacedName
	// Gone reports that this Cluster does not exist; otherwise the request is older than a
	// granted one of the same Cluster.
	Gone   bool
	Reason string
}

// Registrations returns the requests that are left over, by namespace and name. clusters
// has every Cluster. accounts has the metadata of every account that a manager made for an
// agent: a Cluster with an account of a manager of this project is left to that manager,
// which knows whether an agent still uses an older credential.
//
// A request that was not answered yet, or that another program answers, stays. Of requests
// made in the same second all stay.
func Registrations(requests []*fleet.ClusterRegistration, clusters map[types.NamespacedName]bool, accounts []metav1.Object) []Registration {
	newest := map[types.NamespacedName]metav1.Time{} // of granted requests
	for _, r := range requests {
		if at, cluster := r.CreationTimestamp, clusterOf(r); r.Status.Granted && newest[cluster].Time.Before(at.Time) {
			newest[cluster] = at
		}
	}
	managed := managedClusters(requests, accounts)
	var out []Registration
	for _, r := range requests {
		cluster := clusterOf(r)
		if cluster.Name == "" || r.DeletionTimestamp != nil || registration.External(r) || managed[cluster] {
			continue
		}
		at := newest[cluster]
		switch {
		case !clusters[cluster]:
			out = append(out, Registration{r, cluster, true, "its Cluster " + cluster.Name + " is gone"})
		case r.CreationTimestamp.Before(&at):
			out = append(out, Registration{r, cluster, false, "a newer registration of Cluster " + cluster.Name + " was granted"})
		}
	}
	slices.SortFunc(out, func(a, b Registration) int { return compareNames(a.Request, b.Request) })
	return out
}

// clusterOf returns the Cluster of a request; its name is empty if the request was not
// answered.
func clusterOf(r *fleet.ClusterRegistration) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Status.ClusterName}
}

// managedClusters returns the Clusters with an account of a manager of this project.
func managedClusters(requests []*fleet.ClusterRegistration, accounts []metav1.Object) map[types.NamespacedName]bool {
	answered := map[types.NamespacedName]bool{}
	for _, a := range accounts {
		if a.GetLabels()[fleet.LabelManagerID] == "" {
			continue
		}
		if namespace, name, ok := registration.RequestOf(a); ok {
			answered[types.NamespacedName{Namespace: namespace, Name: name}] = true
		}
	}
	out := map[types.NamespacedName]bool{}
	for _, r := range requests {
		if answered[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] {
			out[clusterOf(r)] = true
		}
	}
	return out
}

func compareNames(a, b metav1.Object) int {
	return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
}

// gitRepo is the kind of the owner of the objects of git jobs.
var gitRepo = schema.GroupVersionKind{Group: fleet.Group, Version: fleet.GroupVersion.Version, Kind: "GitRepo"}
