package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BundleNamespaceMapping lets bundles of its namespace be deployed to Clusters
// of other namespaces. Without either selector it maps nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bnm
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BundleNamespaceMapping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// BundleSelector matches labels of Bundles.
	// +optional
	BundleSelector *metav1.LabelSelector `json:"bundleSelector,omitempty"`

	// NamespaceSelector matches labels of namespaces with Clusters.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// BundleNamespaceMappingList is a list of BundleNamespaceMappings.
//
// +kubebuilder:object:root=true
type BundleNamespaceMappingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the BundleNamespaceMappings.
	Items []BundleNamespaceMapping `json:"items"`
}

// GitRepoRestriction limits what the GitRepos of its namespace may ask for. All
// of a namespace add up, in the order of their names. New installations use
// Policy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=grr
// +kubebuilder:printcolumn:name="Default-ServiceAccount",type=string,JSONPath=`.defaultServiceAccount`
// +kubebuilder:printcolumn:name="Allowed-ServiceAccounts",type=string,JSONPath=`.allowedServiceAccounts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GitRepoRestriction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// DefaultServiceAccount is given to GitRepos without a service account.
	// +optional
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`

	// AllowedServiceAccounts are the only accounts to be used. Default: any.
	// +optional
	AllowedServiceAccounts []string `json:"allowedServiceAccounts,omitempty"`

	// AllowedRepoPatterns are the only repositories to be read: regular
	// expressions, or the URLs themselves. Default: any.
	// +optional
	AllowedRepoPatterns []string `json:"allowedRepoPatterns,omitempty"`

	// DefaultClientSecretName is given to GitRepos without a client secret.
	// +optional
	DefaultClientSecretName string `json:"defaultClientSecretName,omitempty"`

	// AllowedClientSecretNames are the only client secrets to be used. Default:
	// any.
	// +optional
	AllowedClientSecretNames []string `json:"allowedClientSecretNames,omitempty"`

	// AllowedTargetNamespaces are the only target namespaces. Default: any.
	// +optional
	AllowedTargetNamespaces []string `json:"allowedTargetNamespaces,omitempty"`

	// AllowedTargetNamespaceSelector must match the labels of the target
	// namespace on the downstream cluster. Default: any.
	// +optional
	AllowedTargetNamespaceSelector *metav1.LabelSelector `json:"allowedTargetNamespaceSelector,omitempty"`
}

// GitRepoRestrictionList is a list of GitRepoRestrictions.
//
// +kubebuilder:object:root=true
type GitRepoRestrictionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the GitRepoRestrictions.
	Items []GitRepoRestriction `json:"items"`
}

// Policy limits what GitRepos, HelmOps and Bundles of its namespace may ask
// for. All of a namespace add up, in the order of their names: what one of them
// requires is required, lists are joined, the first default counts. Patterns
// are regular expressions that must match as a whole, or the texts themselves.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fpol
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// RequireServiceAccount refuses what has no service account. Default:
	// false.
	// +optional
	RequireServiceAccount bool `json:"requireServiceAccount,omitempty"`

	// AllowedServiceAccounts are the only accounts to be used. Default: any.
	// +optional
	AllowedServiceAccounts []string `json:"allowedServiceAccounts,omitempty"`

	// AllowNamespaceCreation lets Helm create namespaces although a service
	// account is required. Default: false.
	// +optional
	AllowNamespaceCreation bool `json:"allowNamespaceCreation,omitempty"`

	// GitRepo holds what counts for GitRepos only.
	// +optional
	GitRepo *GitRepoPolicySpec `json:"gitRepo,omitempty"`

	// HelmOp holds what counts for HelmOps only.
	// +optional
	HelmOp *HelmOpPolicySpec `json:"helmOp,omitempty"`
}

// PolicyList is a list of Policies.
//
// +kubebuilder:object:root=true
type PolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Policies.
	Items []Policy `json:"items"`
}

// GitRepoPolicySpec is what counts for GitRepos only.
type GitRepoPolicySpec struct {
	// DefaultServiceAccount is given to those without one.
	// +optional
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`

	// DefaultClientSecretName is given to those without one.
	// +optional
	DefaultClientSecretName string `json:"defaultClientSecretName,omitempty"`

	// AllowedClientSecretNames are the only client secrets to be used. Default:
	// any.
	// +optional
	AllowedClientSecretNames []string `json:"allowedClientSecretNames,omitempty"`

	// AllowedRepoPatterns are the only repositories to be read. Default: any.
	// +optional
	AllowedRepoPatterns []string `json:"allowedRepoPatterns,omitempty"`
}

// HelmOpPolicySpec is what counts for HelmOps only.
type HelmOpPolicySpec struct {
	// DefaultServiceAccount is given to those without one.
	// +optional
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`

	// DefaultHelmSecretName is given to those without one.
	// +optional
	DefaultHelmSecretName string `json:"defaultHelmSecretName,omitempty"`

	// AllowedHelmSecretNames are the only Helm secrets to be used. Default:
	// any.
	// +optional
	AllowedHelmSecretNames []string `json:"allowedHelmSecretNames,omitempty"`

	// AllowedHelmRepoPatterns are the only repositories to be used. Default:
	// any.
	// +optional
	AllowedHelmRepoPatterns []string `json:"allowedHelmRepoPatterns,omitempty"`

	// AllowedChartPatterns are the only charts to be used. Default: any.
	// +optional
	AllowedChartPatterns []string `json:"allowedChartPatterns,omitempty"`
}
