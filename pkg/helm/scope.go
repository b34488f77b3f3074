package helm

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// clusterKinds are the kinds of Kubernetes and of Fleet that no namespace
// holds, by group.
var clusterKinds = map[string]string{
	"":                             "Namespace Node PersistentVolume ComponentStatus",
	"admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
	"apiextensions.k8s.io":         "CustomResourceDefinition",
	"apiregistration.k8s.io":       "APIService",
	"authentication.k8s.io":        "TokenReview SelfSubjectReview",
	"authorization.k8s.io":         "SubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview",
	"certificates.k8s.io":          "CertificateSigningRequest ClusterTrustBundle",
	"flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
	"internal.apiserver.k8s.io":    "StorageVersion",
	"networking.k8s.io":            "IngressClass IPAddress ServiceCIDR",
	"node.k8s.io":                  "RuntimeClass",
	"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding",
	"resource.k8s.io":              "DeviceClass ResourceSlice DeviceTaintRule",
	"scheduling.k8s.io":            "PriorityClass",
	"storage.k8s.io":               "StorageClass CSIDriver CSINode VolumeAttachment VolumeAttributesClass",
	"storagemigration.k8s.io":      "StorageVersionMigration",
	fleet.Group:                    "Content",
}

// BuiltIn reports whether a kind is namespaced, as far as that is known without
// a cluster: kinds that neither Kubernetes nor Fleet bring count as namespaced.
func BuiltIn(gk schema.GroupKind) (namespaced bool) {
	return !slices.Contains(strings.Fields(clusterKinds[gk.Group]), gk.Kind)
}

// builtIn is BuiltIn for what is asked as of a cluster.
func builtIn(gvk schema.GroupVersionKind) (bool, error) { return BuiltIn(gvk.GroupKind()), nil }
