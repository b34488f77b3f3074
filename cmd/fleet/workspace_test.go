package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// settle gives a workspace its namespace, as the controller that maps Rancher's
// objects does.
func (f *fake) settle(name string) {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if f.held[objectKey(ns)] == nil {
		f.held[objectKey(ns)] = ns
	}
}

// follow moves the Fleet Cluster of a cluster of Rancher's that was given another
// workspace, as the controller that maps Rancher's objects does.
func (f *fake) follow(changed *unstructured.Unstructured) {
	if changed.GroupVersionKind().GroupKind().String() != "Cluster."+management.Group {
		return
	}
	to, _, _ := unstructured.NestedString(changed.Object, "spec", "fleetWorkspaceName")
	for key, o := range f.held {
		if o.GetLabels()[fleet.LabelManagementCluster] == changed.GetName() && o.GetNamespace() != to {
			moved := o.DeepCopy()
			moved.SetNamespace(to)
			unstructured.RemoveNestedField(moved.Object, "status")
			delete(f.held, key)
			f.held[objectKey(moved)] = moved
			return
		}
	}
}
