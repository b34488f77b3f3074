package client

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// Rancher's kinds in the cluster.
var (
	Records       = management.GroupVersion.WithResource("fleetworkspaces")
	AccessReviews = authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
)

// Secrets are the Secrets of Kubernetes.
var Secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// Definitions are the CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
