package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GitTarget selects clusters. Criteria that are given must all match; a target
// without criteria matches no cluster. A selector that is {} matches all.
type GitTarget struct {
	// Name of the target, for people and for values kept per target.
	// +optional
	Name string `json:"name,omitempty"`

	// ClusterName is the name of one Cluster, or the display name that Rancher
	// gave it.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// ClusterSelector matches labels of Clusters.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// ClusterGroup is the name of one ClusterGroup.
	// +optional
	ClusterGroup string `json:"clusterGroup,omitempty"`

	// ClusterGroupSelector matches labels of ClusterGroups.
	// +optional
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector,omitempty"`
}

// StatusBase is what the status of every source of bundles has in common.
type StatusBase struct {
	// ReadyClusters is the number of clusters on which all deployments of this
	// source are ready.
	// +optional
	ReadyClusters int `json:"readyClusters"`

	// DesiredReadyClusters is the number of clusters with a deployment of this
	// source.
	// +optional
	DesiredReadyClusters int `json:"desiredReadyClusters"`

	// Summary counts the deployments of this source by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// Display holds texts for tables.
	// +optional
	Display StatusDisplay `json:"display,omitempty"`

	// Conditions describe the state of the source.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Resources lists the deployed objects with their state.
	// +optional
	Resources []DeployedResource `json:"resources,omitempty"`

	// ResourceCounts counts the deployed objects on all clusters.
	// +optional
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// PerClusterResourceCounts counts the deployed objects of each cluster, by
	// "<namespace>/<name>" of the Cluster.
	// +optional
	PerClusterResourceCounts map[string]*ResourceCounts `json:"perClusterResourceCounts,omitempty"`
}

// StatusDisplay holds texts for tables.
type StatusDisplay struct {
	// ReadyBundleDeployments is "<ready>/<desired>".
	// +optional
	ReadyBundleDeployments string `json:"readyBundleDeployments,omitempty"`

	// State is the worst state of any deployment, or empty if all are ready.
	// +optional
	State string `json:"state,omitempty"`

	// Message belongs to the first deployment with that state.
	// +optional
	Message string `json:"message,omitempty"`

	// Error is true if there is a message.
	// +optional
	Error bool `json:"error,omitempty"`
}

// DeployedResource is one deployed object, with its state on all clusters.
type DeployedResource struct {
	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Type is "<group>.<kind>" in lower case, or the kind alone for core
	// objects.
	// +optional
	Type string `json:"type,omitempty"`

	// ID is "<namespace>/<name>", or the name of a cluster-scoped object.
	// +optional
	ID string `json:"id,omitempty"`

	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// IncompleteState is true if some cluster reported only part of its
	// objects' states.
	// +optional
	IncompleteState bool `json:"incompleteState,omitempty"`

	// State is the first state other than Ready over all clusters.
	// +optional
	State string `json:"state,omitempty"`

	// Error is true if the object will not become ready by itself somewhere.
	// +optional
	Error bool `json:"error,omitempty"`

	// Transitioning is true if the object is on its way somewhere.
	// +optional
	Transitioning bool `json:"transitioning,omitempty"`

	// Message says why the object is not ready.
	// +optional
	Message string `json:"message,omitempty"`

	// PerClusterState lists clusters by the object's state on them.
	PerClusterState PerClusterState `json:"perClusterState"`
}

// PerClusterState lists clusters, as "<namespace>/<name>", by the state of one
// object on them.
type PerClusterState struct {
	// Ready lists clusters where the object is ready.
	// +optional
	Ready []string `json:"ready,omitempty"`

	// WaitApplied lists clusters where it is not applied yet.
	// +optional
	WaitApplied []string `json:"waitApplied,omitempty"`

	// Pending lists clusters that have no deployment yet.
	// +optional
	Pending []string `json:"pending,omitempty"`

	// Modified lists clusters where it was changed by others.
	// +optional
	Modified []string `json:"modified,omitempty"`

	// Orphaned lists clusters where it should not be.
	// +optional
	Orphaned []string `json:"orphaned,omitempty"`

	// Missing lists clusters where it is gone.
	// +optional
	Missing []string `json:"missing,omitempty"`

	// Unknown lists clusters where its state could not be found out.
	// +optional
	Unknown []string `json:"unknown,omitempty"`

	// NotReady lists clusters where it is not ready.
	// +optional
	NotReady []string `json:"notReady,omitempty"`
}
