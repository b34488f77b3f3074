package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterGroup is a set of the Clusters in its namespace, to target them by one
// name and to see them at a glance.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fleet,shortName=fcg
// +kubebuilder:printcolumn:name="Clusters-Ready",type=string,JSONPath=`.status.display.readyClusters`
// +kubebuilder:printcolumn:name="Bundles-Ready",type=string,JSONPath=`.status.display.readyBundles`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which clusters belong to the group.
	// +optional
	Spec ClusterGroupSpec `json:"spec,omitempty"`

	// Status is how they are doing.
	// +optional
	Status ClusterGroupStatus `json:"status,omitempty"`
}

// ClusterGroupList is a list of ClusterGroups.
//
// +kubebuilder:object:root=true
type ClusterGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ClusterGroups.
	Items []ClusterGroup `json:"items"`
}

// ClusterGroupSpec says which clusters belong to a group.
type ClusterGroupSpec struct {
	// Selector matches labels of Clusters in the same namespace. Default: no
	// cluster belongs to the group.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ClusterGroupStatus is how the clusters of a group are doing.
type ClusterGroupStatus struct {
	// ClusterCount is the number of clusters in the group.
	// +optional
	ClusterCount int `json:"clusterCount"`

	// NonReadyClusterCount is the number of those that are not ready.
	// +optional
	NonReadyClusterCount int `json:"nonReadyClusterCount"`

	// NonReadyClusters are the names of the first 10 that are not ready.
	// +optional
	NonReadyClusters []string `json:"nonReadyClusters,omitempty"`

	// Conditions describe the state of the group.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Summary counts the deployments on all clusters by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// Display holds texts for tables.
	// +optional
	Display ClusterGroupDisplay `json:"display,omitempty"`

	// ResourceCounts counts the deployed objects on all clusters by state.
	// +optional
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`
}

// ClusterGroupDisplay holds texts for tables.
type ClusterGroupDisplay struct {
	// ReadyClusters is "<ready>/<all>", and the names of those that are not
	// ready in brackets.
	// +optional
	ReadyClusters string `json:"readyClusters,omitempty"`

	// ReadyBundles is "<ready>/<desired>".
	// +optional
	ReadyBundles string `json:"readyBundles,omitempty"`

	// State is the worst state of any deployment, or empty if all are ready.
	// +optional
	State string `json:"state,omitempty"`
}
