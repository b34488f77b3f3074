package bundle

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A manager that leaves Clusters to another manager may find some that no manager of
// this project has marked. The labels and annotations of their namespaces say where
// they are deployed; see registration.PlaceOf.

// followNamespaces watches the namespaces of clusters, where this manager does not mark
// Clusters itself.
func (e *Engine) followNamespaces(c *kube.Client) {
	if !e.cfg.Scope.Limited() {
		return
	}
	e.table.FollowNamespaces()
	e.cache.owned = kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"),
		kube.Watch{Labels: fleet.LabelManaged + "=true"}, stripOwned)
	e.cache.owned.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		owner := ""
		if changed != nil && changed.DeletionTimestamp == nil {
			owner = registration.NamespaceOwner(changed)
		}
		for _, change := range e.table.SetOwner(either(old, changed).Name, owner) {
			e.retarget(change.Is.Key.Namespace, change)
		}
	})
}

func stripOwned(m *metav1.PartialObjectMetadata) {
	only(m, fleet.AnnotationCluster, fleet.AnnotationClusterNamespace)
	m.Labels = nil
}
