package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOp is a chart of a Helm repository or registry that is deployed as one
// bundle, without git.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=fleet,shortName=hop
// +kubebuilder:printcolumn:name="Repo",type=string,JSONPath=`.spec.helm.repo`
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.spec.helm.chart`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="BundleDeployments-Ready",type=string,JSONPath=`.status.display.readyBundleDeployments`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HelmOp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which chart is deployed, and where it goes.
	// +optional
	Spec HelmOpSpec `json:"spec,omitempty"`

	// Status is what has become of it.
	// +optional
	Status HelmOpStatus `json:"status,omitempty"`
}

// HelmOpList is a list of HelmOps.
//
// +kubebuilder:object:root=true
type HelmOpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the HelmOps.
	Items []HelmOp `json:"items"`
}

// HelmOpSpec says which chart is deployed, and where it goes.
//
// The chart is given by helm: an archive URL in chart alone; or an oci:// URL
// in repo, with or without version; or repo and chart, with or without version.
type HelmOpSpec struct {
	BundleSpec `json:",inline"`

	// Labels are set on the bundle.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// PollingInterval is how often the repository is asked for new versions.
	// Default: never, also for 0.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	// +optional
	PollingInterval *metav1.Duration `json:"pollingInterval,omitempty"`

	// HelmSecretName is the Secret with the credentials for the chart, in the
	// same namespace.
	// +optional
	HelmSecretName string `json:"helmSecretName,omitempty"`

	// InsecureSkipTLSverify accepts any certificate. Default: false.
	// +optional
	InsecureSkipTLSverify bool `json:"insecureSkipTLSVerify,omitempty"`
}

// HelmOpStatus is what has become of a chart.
type HelmOpStatus struct {
	StatusBase `json:",inline"`

	// LastPollingTime is when polling last found something else than before.
	// +optional
	LastPollingTime metav1.Time `json:"lastPollingTriggered,omitempty"`

	// Version is the version that the wanted one stands for.
	// +optional
	Version string `json:"version,omitempty"`
}
