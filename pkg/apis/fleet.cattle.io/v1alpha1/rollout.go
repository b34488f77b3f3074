package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStrategy says how many clusters may be taken down at once, and in
// which order clusters get a change.
type RolloutStrategy struct {
	// MaxUnavailable is how many of the bundle's clusters may be unavailable
	// during a change: a number, or a percentage. Default: 100%.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxUnavailablePartitions is how many partitions may be unavailable before
	// later ones are held back: a number, or a percentage. Default: 0.
	// +optional
	MaxUnavailablePartitions *intstr.IntOrString `json:"maxUnavailablePartitions,omitempty"`

	// AutoPartitionSize is the size of the partitions that are made when none
	// are listed: a number, or a percentage of the clusters. Default: 25%.
	// +optional
	AutoPartitionSize *intstr.IntOrString `json:"autoPartitionSize,omitempty"`

	// AutoPartitionThreshold is the number of clusters from which on partitions
	// are made when none are listed. Default: 200.
	// +optional
	AutoPartitionThreshold *int `json:"autoPartitionThreshold,omitempty"`

	// MaxNew is how many clusters get the bundle for the first time in one
	// round. Default: 50.
	// +optional
	MaxNew *int `json:"maxNew,omitempty"`

	// Partitions are worked on in this order. A cluster that is in none of them
	// gets no change.
	// +optional
	Partitions []Partition `json:"partitions,omitempty"`
}

// Partition is a set of clusters with a limit of its own. Its criteria are
// those of a target.
type Partition struct {
	// Name is shown in the status. Default: a generated one.
	// +optional
	Name string `json:"name,omitempty"`

	// MaxUnavailable is how many of the partition's clusters may be unavailable
	// before it counts as unavailable: a number, or a percentage. Default: the
	// strategy's.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// ClusterName is the name of one Cluster.
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

// PartitionStatus is how far one partition is.
type PartitionStatus struct {
	// Name of the partition.
	// +optional
	Name string `json:"name,omitempty"`

	// Count is the number of clusters in the partition.
	// +optional
	Count int `json:"count,omitempty"`

	// MaxUnavailable is how many of them may be unavailable.
	// +optional
	MaxUnavailable int `json:"maxUnavailable,omitempty"`

	// Unavailable is how many of them are.
	// +optional
	Unavailable int `json:"unavailable,omitempty"`

	// Summary counts the partition's deployments by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`
}
