package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImageScan looks for the newest tag of an image, for its GitRepo to commit.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=isc
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latestTag`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ImageScan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which image, and which of its tags.
	// +optional
	Spec ImageScanSpec `json:"spec,omitempty"`

	// Status is what was found.
	// +optional
	Status ImageScanStatus `json:"status,omitempty"`
}

// ImageScanList is a list of ImageScans.
//
// +kubebuilder:object:root=true
type ImageScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ImageScans.
	Items []ImageScan `json:"items"`
}

// ImageScanSpec says which image is looked at, and which of its tags.
type ImageScanSpec struct {
	// TagName is the marker in manifests that is replaced.
	// +optional
	TagName string `json:"tagName,omitempty"`

	// GitRepoName is the GitRepo, in the same namespace.
	// +optional
	GitRepoName string `json:"gitrepoName,omitempty"`

	// Image is the name of the image, without a tag.
	Image string `json:"image"`

	// Interval is how often the registry is asked. 0 stands for 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$')",message="must be a duration such as 90s, 15m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) <= duration('2562047h')",message="must not be longer than 2562047h"
	Interval metav1.Duration `json:"interval"`

	// SecretRef is the Secret with the credentials for the registry, in the
	// same namespace, of type kubernetes.io/dockerconfigjson.
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`

	// Suspend stops asking. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Policy says which tag is the newest.
	// +optional
	Policy ImagePolicyChoice `json:"policy,omitempty"`
}

// ImagePolicyChoice says which tag is the newest. Default: semver "*".
type ImagePolicyChoice struct {
	// SemVer takes the highest version.
	// +optional
	SemVer *SemVerPolicy `json:"semver,omitempty"`

	// Alphabetical takes the first or last in lexical order.
	// +optional
	Alphabetical *AlphabeticalPolicy `json:"alphabetical,omitempty"`

	// Numerical takes the largest or smallest number.
	// +optional
	Numerical *NumericalPolicy `json:"numerical,omitempty"`
}

// SemVerPolicy takes the highest version.
type SemVerPolicy struct {
	// Range is the semver constraint that tags have to meet. Default: "*".
	// +optional
	Range string `json:"range"`
}

// AlphabeticalPolicy takes the first or last tag in lexical order.
type AlphabeticalPolicy struct {
	// Order is desc, in any case, for the last tag; asc for the first. Default:
	// desc.
	// +optional
	Order string `json:"order,omitempty"`
}

// NumericalPolicy takes the tag with the largest or smallest number. Tags with anything
// but digits do not count.
type NumericalPolicy struct {
	// Order is desc, in any case, for the largest number; asc for the smallest.
	// Default: desc.
	// +optional
	Order string `json:"order,omitempty"`
}

// ImageScanStatus is what was found.
type ImageScanStatus struct {
	// Conditions describe the state of the scan.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// LastScanTime is when the registry was last asked.
	// +optional
	LastScanTime metav1.Time `json:"lastScanTime,omitempty"`

	// LatestImage is the image with the newest tag.
	// +optional
	LatestImage string `json:"latestImage,omitempty"`

	// LatestTag is the newest tag.
	// +optional
	LatestTag string `json:"latestTag,omitempty"`

	// LatestDigest is the digest of the newest tag.
	// +optional
	LatestDigest string `json:"latestDigest,omitempty"`

	// ObservedGeneration is the metadata.generation that was worked on last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// CanonicalImageName is the image with registry and path written out.
	// +optional
	CanonicalImageName string `json:"canonicalImageName,omitempty"`
}
