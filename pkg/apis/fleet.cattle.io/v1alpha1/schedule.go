package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Schedule holds changes back from clusters outside of its windows.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fsch
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.spec.duration`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="NextStart",type=string,JSONPath=`.status.nextStartTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Schedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says when changes are let through, and where.
	// +optional
	Spec ScheduleSpec `json:"spec,omitempty"`

	// Status says whether they are let through now.
	// +optional
	Status ScheduleStatus `json:"status,omitempty"`
}

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Schedules.
	Items []Schedule `json:"items"`
}

// ScheduleSpec says when changes are let through, and where.
type ScheduleSpec struct {
	// Schedule is when windows open: a cron expression of 6 or 7 fields,
	// seconds first.
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// Duration is how long a window stays open. It has to be shorter than the
	// time between two openings.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`

	// Location is the time zone of schedule, by its IANA name. Default: that of
	// the manager.
	// +optional
	Location string `json:"location,omitempty"`

	// Targets select the clusters.
	// +optional
	Targets ScheduleTargets `json:"targets,omitempty"`
}

// ScheduleTargets select the clusters of a schedule.
type ScheduleTargets struct {
	// Clusters each select some of the Clusters in the same namespace.
	// +optional
	Clusters []ScheduleTarget `json:"clusters,omitempty"`
}

// ScheduleTarget selects clusters, as a GitTarget does.
type ScheduleTarget struct {
	// Name of the target, for people.
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

// ScheduleStatus says whether changes are let through.
type ScheduleStatus struct {
	// Active is true while a window is open.
	// +optional
	Active bool `json:"active,omitempty"`

	// NextStartTime is when the next window opens.
	// +optional
	NextStartTime metav1.Time `json:"nextStartTime,omitempty"`

	// Conditions describe the state of the schedule.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// MatchingClusters are the names of the selected clusters.
	// +optional
	MatchingClusters []string `json:"matchingClusters,omitempty"`
}
