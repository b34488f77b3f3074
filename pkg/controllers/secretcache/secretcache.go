// Package secretcache has the cache of Secrets that objects may name as credentials.
package secretcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// New returns a cache of the metadata of Secrets that may hold credentials: neither Helm
// releases nor tokens nor what Fleet itself keeps in Secrets. It has no data: the caller
// requests a Secret when it needs one.
func New(c *kube.Client) *kube.Cache[*metav1.PartialObjectMetadata] {
	return kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"), kube.Watch{
		Labels: fleet.LabelManaged + "!=true",
		Fields: "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token",
	}, func(m *metav1.PartialObjectMetadata) { m.Annotations, m.OwnerReferences = nil, nil })
}
