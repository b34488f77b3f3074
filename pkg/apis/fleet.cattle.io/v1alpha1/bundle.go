package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Bundle is a set of resources and how they are deployed to which clusters. It
// is made from a path of a GitRepo, from a HelmOp, or by hand.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bun
// +kubebuilder:printcolumn:name="BundleDeployments-Ready",type=string,JSONPath=`.status.display.readyClusters`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Paused",type=boolean,priority=1,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what should be deployed.
	// +optional
	Spec BundleSpec `json:"spec"`

	// Status is what has become of it.
	// +optional
	Status BundleStatus `json:"status"`
}

// BundleList is a list of Bundles.
//
// +kubebuilder:object:root=true
type BundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Bundles.
	Items []Bundle `json:"items"`
}

// BundleSpec says what is deployed, how, and to which clusters.
type BundleSpec struct {
	BundleDeploymentOptions `json:",inline"`

	// Paused holds changes back; what is deployed stays as it is. Default:
	// false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// RolloutStrategy limits how many clusters change at once.
	// +optional
	RolloutStrategy *RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// Resources are the files of the bundle, sorted by name.
	// +optional
	Resources []BundleResource `json:"resources,omitempty"`

	// TargetCustomizationMode says whether a cluster gets the first matching
	// customization or all of them, one after the other. Default: FirstMatch.
	// +kubebuilder:validation:Enum=FirstMatch;AllMatches
	// +kubebuilder:default=FirstMatch
	// +optional
	TargetCustomizationMode TargetCustomizationMode `json:"targetCustomizationMode,omitempty"`

	// Targets select clusters and customize the options for them. With target
	// restrictions the last entries, as many as there are restrictions, select
	// clusters and all before them only customize; without, each does both.
	// The first match wins.
	// +optional
	Targets []BundleTarget `json:"targets,omitempty"`

	// TargetRestrictions are the only clusters that may be selected. Written by
	// Fleet from the targets of the GitRepo.
	// +optional
	TargetRestrictions []BundleTargetRestriction `json:"targetRestrictions,omitempty"`

	// DependsOn are bundles that must be ready on a cluster first.
	// +optional
	DependsOn []BundleRef `json:"dependsOn,omitempty"`

	// ContentsID is the id of the artifact that holds the resources, where they
	// are kept in a registry.
	// +optional
	ContentsID string `json:"contentsId,omitempty"`

	// HelmOpOptions mark a bundle without resources, whose chart is downloaded
	// by the agent. Written by Fleet for HelmOps.
	// +optional
	HelmOpOptions *BundleHelmOptions `json:"helmOpOptions,omitempty"`

	// ValuesHash is the digest of the Secret of the bundle's name, which holds
	// the Helm values of the bundle and its targets. Empty: there is none.
	// +optional
	ValuesHash string `json:"valuesHash,omitempty"`
}

// TargetCustomizationMode says which matching customizations a cluster gets.
type TargetCustomizationMode string

// The customization modes.
const (
	// TargetCustomizationFirstMatch applies the first one that matches.
	TargetCustomizationFirstMatch TargetCustomizationMode = "FirstMatch"
	// TargetCustomizationAllMatches merges all that match, in order.
	TargetCustomizationAllMatches TargetCustomizationMode = "AllMatches"
)

// BundleResource is one file of a bundle.
type BundleResource struct {
	// Name is the path of the file relative to the bundle.
	// +optional
	Name string `json:"name,omitempty"`

	// Content of the file, as encoding says.
	// +optional
	Content string `json:"content,omitempty"`

	// Encoding is empty for plain text, base64, or base64+gz for gzip in
	// base64.
	// +optional
	Encoding string `json:"encoding,omitempty"`
}

// The encodings of a BundleResource.
const (
	EncodingPlain      = ""
	EncodingBase64     = "base64"
	EncodingBase64Gzip = "base64+gz"
)

// BundleTarget selects clusters, and says how the options differ for them.
type BundleTarget struct {
	BundleDeploymentOptions `json:",inline"`

	// Name of the target. Default: "target" and its index in three digits.
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

	// DoNotDeploy leaves out the clusters that match. Default: false.
	// +optional
	DoNotDeploy bool `json:"doNotDeploy,omitempty"`

	// NamespaceLabels are added to those of the bundle, on every cluster.
	// +optional
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations are added to those of the bundle, on every cluster.
	// +optional
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
}

// BundleTargetRestriction selects clusters that a bundle may be deployed to.
type BundleTargetRestriction struct {
	// Name of the restriction, for people.
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

// BundleRef names bundles that another one depends on. One of name and
// selector is needed.
type BundleRef struct {
	// Name of a bundle in the same namespace.
	// +optional
	Name string `json:"name,omitempty"`

	// Selector matches labels of deployments on the same cluster.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// AcceptedStates are the states in which the dependency counts as met.
	// Default: Ready.
	// +optional
	AcceptedStates []BundleState `json:"acceptedStates,omitempty"`
}

// PullMode says who downloads the chart of a HelmOp.
type PullMode string

// Values of PullMode.
const (
	PullAgent   PullMode = "agent"
	PullManager PullMode = "manager"
)

// BundleHelmOptions say how the chart of a HelmOp is downloaded.
type BundleHelmOptions struct {
	// SecretName is the Secret with the credentials, in the namespace of the
	// object that holds these options.
	// +optional
	SecretName string `json:"helmOpSecretName,omitempty"`

	// InsecureSkipTLSverify accepts any certificate. Default: false.
	// +optional
	InsecureSkipTLSverify bool `json:"helmOpInsecureSkipTLSVerify,omitempty"`

	// CABundle holds PEM certificates that are trusted in addition.
	// +optional
	CABundle []byte `json:"helmOpCABundle,omitempty"`

	// Pull says who downloads the chart: each agent, or the manager for all of
	// them, so that clusters need nothing but the manager's Kubernetes API.
	// Default: agent.
	// +kubebuilder:validation:Enum=agent;manager
	// +optional
	Pull PullMode `json:"pull,omitempty"`
}

// BundleStatus is what has become of a bundle.
type BundleStatus struct {
	// Conditions describe the state of the bundle.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Summary counts the bundle's deployments by state.
	// +optional
	Summary BundleSummary `json:"summary,omitempty"`

	// NewlyCreated is the number of deployments made in the last round.
	// +optional
	NewlyCreated int `json:"newlyCreated,omitempty"`

	// Unavailable is the number of deployments that are not ready or not up to
	// date.
	// +optional
	Unavailable int `json:"unavailable"`

	// UnavailablePartitions is the number of partitions over their limit.
	// +optional
	UnavailablePartitions int `json:"unavailablePartitions"`

	// MaxUnavailable is the limit for unavailable, as a number.
	// +optional
	MaxUnavailable int `json:"maxUnavailable"`

	// MaxUnavailablePartitions is the limit for unavailablePartitions, as a
	// number.
	// +optional
	MaxUnavailablePartitions int `json:"maxUnavailablePartitions"`

	// PartitionStatus is how far each partition is.
	// +optional
	PartitionStatus []PartitionStatus `json:"partitions,omitempty"`

	// Display holds texts for tables.
	// +optional
	Display BundleDisplay `json:"display,omitempty"`

	// ResourceKey is not used any more and always empty.
	// +optional
	ResourceKey []ResourceKey `json:"resourceKey,omitempty"`

	// OCIReference is where the resources are kept in a registry, for people.
	// +optional
	OCIReference string `json:"ociReference,omitempty"`

	// ObservedGeneration is the metadata.generation that was worked on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// ResourcesSHA256Sum is the digest of spec.resources as JSON, in hex.
	// +optional
	ResourcesSHA256Sum string `json:"resourcesSha256Sum,omitempty"`
}

// BundleDisplay holds texts for tables.
type BundleDisplay struct {
	// ReadyClusters is "<ready>/<desired>".
	// +optional
	ReadyClusters string `json:"readyClusters,omitempty"`

	// State is the worst state of any deployment, or empty if all are ready.
	// +optional
	State string `json:"state,omitempty"`
}

// ResourceKey names an object.
type ResourceKey struct {
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
}
