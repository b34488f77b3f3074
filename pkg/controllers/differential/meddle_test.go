package differential_test

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// unknownNamesVersion is what another client writes as a deployment id.
const unknownNamesVersion = "s-0:0"

// meddle changes what the manager has made, as another client. Some of it a
// running manager notices, and one that was started later cannot: the object
// says that it is as it should be, or no longer whose it is.
func (m *model) meddle() edit {
	bundles, clusters := m.there()
	if len(bundles) == 0 || len(clusters) == 0 {
		return m.newBundle()
	}
	bundle, cluster := one(m, bundles...), one(m, clusters...)
	key := func(w *world) kube.Key {
		return kube.Key{Namespace: naming.ClusterNamespace(w.workspace, cluster), Name: bundle}
	}
	at := fmt.Sprintf("deployment of %s on %s", bundle, cluster)
	change := func(what string, f func(bd *fleet.BundleDeployment)) edit {
		return edit{at + ": " + what, func(w *world) error { return update(w, key(w), f) }}
	}
	label := one(m, fleet.LabelManaged, fleet.LabelBucket, fleet.LabelContentName, fleet.LabelRepoName)
	if m.calm {
		label = one(m, label, fleet.LabelBundleName)
	}
	switch n := m.rng.IntN(9); {
	case n == 0:
		return change("label "+label+" taken", func(bd *fleet.BundleDeployment) { delete(bd.Labels, label) })
	case n == 1:
		return change("a label more", func(bd *fleet.BundleDeployment) { bd.Labels["stranger"] = "yes" })
	case n == 2:
		return change("the reference's finalizer", func(bd *fleet.BundleDeployment) {
			if !slices.Contains(bd.Finalizers, fleet.FinalizerBundleDeployment) {
				bd.Finalizers = append(bd.Finalizers, fleet.FinalizerBundleDeployment)
			}
		})
	case n == 3:
		return change("given up", func(bd *fleet.BundleDeployment) { bd.Annotations[fleet.AnnotationAbandon] = "true" })
	case n == 4 && m.calm:
		return change("other options", func(bd *fleet.BundleDeployment) { bd.Spec.Options.DefaultNamespace = "stranger" })
	case n == 5 && m.calm:
		return change("another version", func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = unknownNamesVersion })
	case n == 6:
		return change("pause", func(bd *fleet.BundleDeployment) { bd.Spec.Paused = !bd.Spec.Paused })
	case n == 7:
		return edit{at + ": its Secret deleted", func(w *world) error { return remove[*corev1.Secret](w, key(w)) }}
	}
	return edit{at + ": deleted", func(w *world) error { return remove[*fleet.BundleDeployment](w, key(w)) }}
}

// there are the names of the Bundles and clusters that there should be.
func (m *model) there() (bundles, clusters []string) {
	for _, name := range slices.Sorted(maps.Keys(m.bundles)) {
		if m.bundles[name] != nil {
			bundles = append(bundles, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.clusters)) {
		if !m.clusters[name].leaving {
			clusters = append(clusters, name)
		}
	}
	return bundles, clusters
}

// dropContent deletes the content of a Bundle.
func (m *model) dropContent() edit {
	bundles, _ := m.there()
	if len(bundles) == 0 {
		return m.newBundle()
	}
	name := one(m, bundles...)
	id := content.IDOf(content.Sum(content.Manifest{Resources: m.bundles[name].Spec.Resources}))
	return edit{fmt.Sprintf("content of %s deleted", name), func(w *world) error { return remove[*fleet.Content](w, kube.Key{Name: id}) }}
}
