package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BundleDeployment is one bundle on one cluster: what the agent of that cluster
// has to deploy, and what it made of it. It lives in the cluster's namespace
// and has the bundle's name. Written by Fleet alone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bd
// +kubebuilder:printcolumn:name="Deployed",type=string,JSONPath=`.status.display.deployed`
// +kubebuilder:printcolumn:name="Monitored",type=string,JSONPath=`.status.display.monitored`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BundleDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the agent has to deploy.
	// +optional
	Spec BundleDeploymentSpec `json:"spec,omitempty"`

	// Status is what the agent made of it.
	// +optional
	Status BundleDeploymentStatus `json:"status,omitempty"`
}

// BundleDeploymentList is a list of BundleDeployments.
//
// +kubebuilder:object:root=true
type BundleDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the BundleDeployments.
	Items []BundleDeployment `json:"items"`
}

// BundleDeploymentSpec is what the agent has to deploy now, and what it will
// have to deploy once nothing holds that back.
type BundleDeploymentSpec struct {
	// Paused makes the agent leave the cluster as it is. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// StagedOptions belong to stagedDeploymentID. Helm values are never in
	// them; they are in the Secret of the same name.
	// +optional
	StagedOptions BundleDeploymentOptions `json:"stagedOptions,omitempty"`

	// StagedDeploymentID is the newest deployment, "<content id>:<digest of the
	// options>". It becomes deploymentID when limits and pauses allow.
	// +optional
	StagedDeploymentID string `json:"stagedDeploymentID,omitempty"`

	// Options belong to deploymentID. Helm values are never in them; they are
	// in the Secret of the same name.
	// +optional
	Options BundleDeploymentOptions `json:"options,omitempty"`

	// DeploymentID is the deployment that the agent has to bring about,
	// "<content id>:<digest of the options>".
	// +optional
	DeploymentID string `json:"deploymentID,omitempty"`

	// DependsOn are bundles that must be ready on this cluster first.
	// +optional
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// CorrectDrift says whether changes made by others are undone.
	// +optional
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// OCIContents is true if the resources are in a registry, not in a Content.
	// +optional
	OCIContents bool `json:"ociContents,omitempty"`

	// HelmChartOptions are set if the agent downloads the chart itself.
	// +optional
	HelmChartOptions *BundleHelmOptions `json:"helmChartOptions,omitempty"`

	// ValuesHash is the digest of the Helm values in the Secret of the same
	// name. Empty: there is none. An agent that finds other values waits.
	// +optional
	ValuesHash string `json:"valuesHash,omitempty"`

	// DownstreamResourcesGeneration is raised when the data of a downstream
	// resource changed.
	// +optional
	DownstreamResourcesGeneration int `json:"downstreamResourcesGeneration,omitempty"`

	// OffSchedule makes the agent leave the cluster as it is, outside of the
	// cluster's windows. Default: false.
	// +optional
	OffSchedule bool `json:"offSchedule,omitempty"`

	// WaitingForValues makes the agent leave the cluster as it is until values
	// arrive. Default: false.
	// +optional
	WaitingForValues bool `json:"waitingForValues,omitempty"`
}

// BundleDeploymentStatus is what the agent made of a deployment.
type BundleDeploymentStatus struct {
	// Conditions describe the state of the deployment.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// AppliedDeploymentID is the deployment that was applied last, also if that
	// failed for good.
	// +optional
	AppliedDeploymentID string `json:"appliedDeploymentID,omitempty"`

	// Release is "<namespace>/<name>:<revision>" of the Helm release.
	// +optional
	Release string `json:"release,omitempty"`

	// Ready is true if all objects are ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// NonModified is true if all objects are as they were deployed.
	// +optional
	NonModified bool `json:"nonModified,omitempty"`

	// NonReadyStatus lists objects that are not ready; at most 10.
	// +optional
	NonReadyStatus []NonReadyStatus `json:"nonReadyStatus,omitempty"`

	// ModifiedStatus lists objects that were changed by others; at most 10.
	// +optional
	ModifiedStatus []ModifiedStatus `json:"modifiedStatus,omitempty"`

	// IncompleteState is true if there are more than 10 of either.
	// +optional
	IncompleteState bool `json:"incompleteState,omitempty"`

	// Display holds texts for tables.
	// +optional
	Display BundleDeploymentDisplay `json:"display,omitempty"`

	// SyncGeneration is the forceSyncGeneration that was applied last.
	// +optional
	SyncGeneration *int64 `json:"syncGeneration,omitempty"`

	// Resources lists all objects of the release.
	// +optional
	Resources []BundleDeploymentResource `json:"resources,omitempty"`

	// ResourceCounts counts the objects of the release by state.
	// +optional
	ResourceCounts ResourceCounts `json:"resourceCounts,omitempty"`

	// DownstreamResourcesGeneration is the one that was copied last.
	// +optional
	DownstreamResourcesGeneration int `json:"downstreamResourcesGeneration,omitempty"`
}

// BundleDeploymentDisplay holds texts for tables.
type BundleDeploymentDisplay struct {
	// Deployed is the status of the condition Deployed, or "Error: <message>".
	// +optional
	Deployed string `json:"deployed,omitempty"`

	// Monitored is the status of the condition Monitored, or "Error: <message>".
	// +optional
	Monitored string `json:"monitored,omitempty"`

	// State is one of the seven state words.
	// +optional
	State string `json:"state,omitempty"`
}

// BundleDeploymentResource names one object of a release.
type BundleDeploymentResource struct {
	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// CreatedAt is when the object was created, if that is known.
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitempty"`
}
