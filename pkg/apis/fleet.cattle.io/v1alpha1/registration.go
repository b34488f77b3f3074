package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterRegistration is an agent's request to become a Cluster. Written by
// agents.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fcr
// +kubebuilder:printcolumn:name="Cluster-Name",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Labels",type=string,JSONPath=`.spec.clusterLabels`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRegistration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is who asks.
	// +optional
	Spec ClusterRegistrationSpec `json:"spec,omitempty"`

	// Status is the answer.
	// +optional
	Status ClusterRegistrationStatus `json:"status,omitempty"`
}

// ClusterRegistrationList is a list of ClusterRegistrations.
//
// +kubebuilder:object:root=true
type ClusterRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ClusterRegistrations.
	Items []ClusterRegistration `json:"items"`
}

// ClusterRegistrationSpec is who asks to become a Cluster.
type ClusterRegistrationSpec struct {
	// ClientID identifies the cluster; the UID of its kube-system namespace,
	// unless another was configured.
	// +optional
	ClientID string `json:"clientID,omitempty"`

	// ClientRandom is made up for this request; with clientID it names the
	// Secret of the answer.
	// +optional
	ClientRandom string `json:"clientRandom,omitempty"`

	// ClusterLabels are wished for the new Cluster.
	// +optional
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
}

// ClusterRegistrationStatus is the answer to a request.
type ClusterRegistrationStatus struct {
	// ClusterName is the Cluster, in the same namespace.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// Granted is true once the credentials are there to fetch.
	// +optional
	Granted bool `json:"granted,omitempty"`
}

// ClusterRegistrationToken lets agents register Clusters in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fcrt
// +kubebuilder:printcolumn:name="Secret-Name",type=string,JSONPath=`.status.secretName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRegistrationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how long the token is good for.
	// +optional
	Spec ClusterRegistrationTokenSpec `json:"spec,omitempty"`

	// Status says where the token is found.
	// +optional
	Status ClusterRegistrationTokenStatus `json:"status,omitempty"`
}

// ClusterRegistrationTokenList is a list of ClusterRegistrationTokens.
//
// +kubebuilder:object:root=true
type ClusterRegistrationTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ClusterRegistrationTokens.
	Items []ClusterRegistrationToken `json:"items"`
}

// ClusterRegistrationTokenSpec says how long a token is good for.
type ClusterRegistrationTokenSpec struct {
	// TTL is how long after its creation the token is deleted. Default: never,
	// also for 0.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// ClusterRegistrationTokenStatus says where a token is found.
type ClusterRegistrationTokenStatus struct {
	// Expires is when the token will be deleted.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// SecretName is the Secret with the values for the agent's chart, in the
	// same namespace.
	// +optional
	SecretName string `json:"secretName,omitempty"`
}
