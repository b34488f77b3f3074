package withdrawal

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

const (
	kindCRD       = "CustomResourceDefinition"
	kindNamespace = "Namespace"
)

// kindsWithData are the kinds whose objects hold data that no new deployment restores.
var kindsWithData = []string{"PersistentVolumeClaim", kindNamespace, kindCRD}

// NeedsApproval reports whether objects of a kind go only with an approval.
func NeedsApproval(kind string) bool { return slices.Contains(kindsWithData, kind) }

// A DataObject is one object of such a kind that a removal deletes too.
type DataObject struct {
	Kind, Namespace, Name string
	Cluster               string // "<namespace>/<name>" of the Cluster
	// Whole is set for a Namespace that deleteNamespace deletes, with everything in
	// it, once no deployment is left in it.
	Whole bool
}

// String returns "PersistentVolumeClaim pos/data on fleet-default/c1".
func (d DataObject) String() string {
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "/" + name
	}
	if d.Whole {
		name += " with everything in it"
	}
	return fmt.Sprintf("%s %s on %s", d.Kind, name, d.Cluster)
}

// hashPart is the form of a DataObject in a hash.
func (d DataObject) hashPart() string {
	if d.Whole {
		return "whole"
	}
	return "thing"
}

// DataObjects returns the objects with data that the removal of a deployment deletes: those
// that its agent has reported, and the namespace that deleteNamespace deletes. With keepResources
// nothing goes, and CRDs go only with deleteCRDResources.
func DataObjects(cluster string, bd *fleet.BundleDeployment) []DataObject {
	o := bd.Spec.Options
	if o.KeepResources {
		return nil
	}
	out := withoutCRDs(reportedObjects(cluster, bd), bd)
	if !o.DeleteNamespace || o.TargetNamespace == "" || bd.Spec.DeploymentID == "" || Protected(o.TargetNamespace) {
		return out
	}
	object := DataObject{Kind: kindNamespace, Name: o.TargetNamespace, Cluster: cluster}
	if slices.Contains(out, object) {
		return out
	}
	object.Whole = true
	return append(out, object)
}

func withoutCRDs(things []DataObject, bd *fleet.BundleDeployment) []DataObject {
	if bd.Spec.Options.DeleteCRDResources {
		return things
	}
	return slices.DeleteFunc(things, func(t DataObject) bool { return t.Kind == kindCRD })
}

// reportedObjects returns all objects with data that the agent of a deployment has reported.
func reportedObjects(cluster string, bd *fleet.BundleDeployment) []DataObject {
	var out []DataObject
	for _, o := range bd.Status.Resources {
		if NeedsApproval(o.Kind) {
			out = append(out, DataObject{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Cluster: cluster})
		}
	}
	return out
}

// Claims returns the DataObjects that stay on a cluster because a deployment stays there: the
// objects with data that it has reported, and the namespace that it is in. A deployment that
// was ordered to leave claims nothing.
func Claims(cluster string, bd *fleet.BundleDeployment) []DataObject {
	if bd.Annotations[fleet.AnnotationWithdrawn] != "" {
		return nil
	}
	var out []DataObject
	if keepsSharedObjects(bd) {
		out = reportedObjects(cluster, bd)
	}
	if bd.Spec.DeploymentID != "" {
		id := release.IDOf(bd.Name, bd.Spec.Options)
		out = append(out, DataObject{Kind: kindNamespace, Name: id.Namespace, Cluster: cluster, Whole: true})
	}
	return out
}

// keepsSharedObjects reports whether the objects that a deployment has reported stay when
// another one goes that has them, too: it has been applied, or takes them over as
// soon as the other one is withdrawn.
func keepsSharedObjects(bd *fleet.BundleDeployment) bool {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
	return bd.Status.AppliedDeploymentID != "" || c != nil && c.Status != corev1.ConditionTrue && c.Reason == release.ReasonSharedObject
}

// UnclaimedObjects returns the objects that no remaining deployment claims.
func UnclaimedObjects(things []DataObject, claimed map[DataObject]bool) []DataObject {
	var out []DataObject
	for _, t := range things {
		if !claimed[t] {
			out = append(out, t)
		}
	}
	return out
}

// Protected reports whether a namespace is one of Kubernetes, Rancher or Fleet,
// which deleteNamespace never deletes. An agent protects its own namespace too.
func Protected(namespace string) bool {
	switch namespace {
	case metav1.NamespaceDefault, fleet.NamespaceDefault, fleet.NamespaceLocal:
		return true
	}
	return strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "cattle-")
}
