// Package scope decides which objects a manager writes if several managers share a
// cluster: those of its shard, in its workspaces. The label and namespace of an object
// decide which scope it is in, so that two managers never write the same object for the
// same purpose.
//
// The label and its meaning are rancher/fleet's: a manager without an id works on
// objects without the label fleet.cattle.io/shard-ref, one with an id on objects that
// name it.
package scope

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Scope describes the objects that one manager writes. The zero Scope is that of a
// manager without a shard: all workspaces, without the objects of any shard.
type Scope struct {
	// Shard is the id of the shard; empty for the default one.
	Shard string
	// Workspaces are the only namespaces that the manager works in; empty: all.
	Workspaces []string
}

// Limited reports whether there may be objects of others.
func (s Scope) Limited() bool { return s.Shard != "" || len(s.Workspaces) > 0 }

// Holds reports whether a namespace is one of the workspaces.
func (s Scope) Holds(namespace string) bool {
	return len(s.Workspaces) == 0 || slices.Contains(s.Workspaces, namespace)
}

// Takes reports whether an object with these labels in a workspace is the manager's. An
// object whose label is empty, or names the shard of no manager, is not the default
// manager's either.
func (s Scope) Takes(workspace string, labels map[string]string) bool {
	if !s.Holds(workspace) {
		return false
	}
	shard, named := labels[fleet.LabelShardRef]
	if s.Shard == "" {
		return !named
	}
	return shard == s.Shard
}

// Owns reports whether an object of a workspace is the manager's. For a
// BundleDeployment, which is in another namespace, ask for its Bundle.
func (s Scope) Owns(o metav1.Object) bool { return s.Takes(o.GetNamespace(), o.GetLabels()) }

// Lease returns the name of a lease for this shard: the default's, with the id behind it,
// as rancher/fleet has it. Workspaces do not change it: two managers in one system
// namespace that differ in nothing else exclude each other.
func (s Scope) Lease(name string) string {
	if s.Shard == "" {
		return name
	}
	return name + "-" + s.Shard
}

// String says in words what a manager looks after.
func (s Scope) String() string {
	what := "all objects without a shard"
	if s.Shard != "" {
		what = "objects of shard " + s.Shard
	}
	if len(s.Workspaces) > 0 {
		what += " in " + strings.Join(s.Workspaces, ", ")
	}
	return what
}

// Validate returns what is wrong with what a person has said.
func (s Scope) Validate() error {
	if s.Shard != "" {
		for _, problem := range append(validation.IsValidLabelValue(s.Shard), validation.IsDNS1123Subdomain(s.Lease("shard"))...) {
			return fmt.Errorf("shard id %q: %s", s.Shard, problem)
		}
	}
	for _, ns := range s.Workspaces {
		for _, problem := range validation.IsDNS1123Label(ns) {
			return fmt.Errorf("workspace %q: %s", ns, problem)
		}
	}
	return nil
}
