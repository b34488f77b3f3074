package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Content holds the resources of a bundle, once for all clusters. Its name is
// the digest of what it holds; it never changes. Written by Fleet alone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fct
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Content struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Content is the manifest as JSON, compressed with gzip.
	// +optional
	Content []byte `json:"content,omitempty"`

	// SHA256Sum is the digest of the JSON before compression, in hex.
	// +optional
	SHA256Sum string `json:"sha256sum,omitempty"`

	// Status says whether the content is in use.
	// +optional
	Status ContentStatus `json:"status,omitempty"`
}

// ContentList is a list of Contents.
//
// +kubebuilder:object:root=true
type ContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Contents.
	Items []Content `json:"items"`
}

// ContentStatus says whether a content is in use.
type ContentStatus struct {
	// ReferenceCount is the number of deployments that need the content.
	// +optional
	ReferenceCount int `json:"referenceCount,omitempty"`
}
