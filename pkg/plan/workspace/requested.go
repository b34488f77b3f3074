package workspace

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// OriginAsked is the AnnotationOrigin of a Namespace that a person has made to be a
// workspace where there are no FleetWorkspaces. It is no mark for any of these: one
// that is made later does not get the namespace by it.
const OriginAsked = "asked"

// AnnotationWorkspaceName on a provisioning Cluster is the workspace that Rancher
// gives to its management Cluster, before any other.
const AnnotationWorkspaceName = "provisioning.cattle.io/fleet-workspace-name"

// VerbAdd is the verb by which Rancher's webhook asks whether a user may bring a cluster
// into a FleetWorkspace.
const VerbAdd = "fleetaddcluster"

// RequestedWorkspace returns the FleetWorkspace that a person asks for.
func RequestedWorkspace(name string) *management.FleetWorkspace {
	return &management.FleetWorkspace{
		TypeMeta:   metav1.TypeMeta{APIVersion: management.GroupVersion.String(), Kind: "FleetWorkspace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// OptInAnnotations returns the annotations of a Namespace that a FleetWorkspace of its name may have.
// A user who sets them may change the Namespace, and so may give it away.
func OptInAnnotations() map[string]string { return map[string]string{AnnotationAllowExisting: yes} }

// RequestedNamespace returns the Namespace that a person asks for, where no FleetWorkspace can stand for
// it.
func RequestedNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{AnnotationOrigin: OriginAsked}},
	}
}

// MoveRefusal reports why a management Cluster cannot come into another workspace; empty
// where it can.
func MoveRefusal(m *management.Cluster) string {
	switch {
	case m.Spec.Internal || m.Name == Local:
		return "it is the cluster that Rancher runs in, which stays in its workspace"
	case ExternallyManaged(m):
		return "its Fleet Cluster is made by somebody else (annotation " + AnnotationExternallyManaged + ")"
	case m.DeletionTimestamp != nil:
		return "it is being deleted"
	}
	return ""
}
