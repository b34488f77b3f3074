package differential_test

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// relabel changes the labels of a cluster.
func (m *model) relabel() edit {
	name := m.some("c", maxClusters)
	c := m.clusters[name]
	if c == nil || c.leaving {
		return m.moveOne(name)
	}
	c.cluster.Labels = m.clusterLabels()
	return m.putCluster(name)
}

func (m *model) putCluster(name string) edit {
	c := m.clusters[name].cluster.DeepCopy()
	text := fmt.Sprintf("cluster %s = labels %s annotations %s %s", name, jsonOf(c.Labels), jsonOf(c.Annotations), jsonOf(c.Spec))
	return edit{text, func(w *world) error {
		return update(w, w.in(name), func(old *fleet.Cluster) {
			old.Labels, old.Spec = c.Labels, c.Spec
			namespace := old.Annotations[registration.AnnotationDeploymentNamespace]
			old.Annotations = maps.Clone(c.Annotations)
			old.Annotations[registration.AnnotationDeploymentNamespace] = namespace
		})
	}}
}

// changeCluster changes something else about a cluster.
func (m *model) changeCluster() edit {
	name := m.some("c", maxClusters)
	c := m.clusters[name]
	if c == nil || c.leaving {
		return m.moveOne(name)
	}
	switch m.rng.IntN(4) {
	case 0:
		c.cluster.Spec.Paused = !c.cluster.Spec.Paused
	case 1:
		c.cluster.Annotations = map[string]string{"note": one(m, "x", "y")}
	case 2:
		c.cluster.Spec.TemplateValues = m.templateValues()
	case 3:
		c.cluster.Annotations = map[string]string{}
	}
	return m.putCluster(name)
}

// moveCluster lets a cluster come or go.
func (m *model) moveCluster() edit { return m.moveOne(m.some("c", maxClusters)) }

func (m *model) moveOne(name string) edit {
	c := m.clusters[name]
	namespace := func(w *world) string { return naming.ClusterNamespace(w.workspace, name) }
	switch {
	case c == nil:
		made := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: m.clusterLabels(), Annotations: map[string]string{}}}
		made.Spec.TemplateValues = m.templateValues()
		m.clusters[name] = &machine{cluster: made, joined: m.percent(80)}
		joined, made := m.clusters[name].joined, made.DeepCopy()
		text := fmt.Sprintf("cluster %s comes, joined %t, labels %s %s", name, joined, jsonOf(made.Labels), jsonOf(made.Spec))
		return edit{text, func(w *world) error { return w.addCluster(made, namespace(w), joined) }}
	case !c.leaving:
		c.leaving = true
		return edit{"cluster " + name + " deleted", func(w *world) error { return remove[*fleet.Cluster](w, w.in(name)) }}
	}
	delete(m.clusters, name)
	return edit{"cluster " + name + " gone", func(w *world) error { return w.dropCluster(name, namespace(w)) }}
}

// addCluster plays the part of agentmanagement for a new Cluster.
func (w *world) addCluster(c *fleet.Cluster, namespace string, joined bool) error {
	if err := w.namespace(namespace); err != nil {
		return err
	}
	c = c.DeepCopy()
	c.Namespace, c.Finalizers = w.workspace, []string{fleet.FinalizerCluster}
	c.Annotations[registration.AnnotationDeploymentNamespace] = namespace
	if _, err := kube.StoreOf[*fleet.Cluster](w.admin).Create(w.t.Context(), c); err != nil {
		return err
	}
	if err := setStatus(w, kube.KeyOf(c), func(c *fleet.Cluster) { c.Status.Namespace = namespace }); err != nil || !joined {
		return err
	}
	return w.agents.join(w.t.Context(), kube.KeyOf(c), namespace)
}

// dropCluster plays the part of agentmanagement for a Cluster that is being
// deleted: what is in its namespace goes with it.
func (w *world) dropCluster(name, namespace string) error {
	w.agents.leave(namespace)
	ctx, store := w.t.Context(), kube.StoreOf[*fleet.BundleDeployment](w.admin)
	list, err := store.List(ctx, namespace, "")
	if err != nil {
		return err
	}
	for _, bd := range list {
		if err := store.Delete(ctx, kube.KeyOf(bd), kube.Precondition{}); err != nil {
			return err
		}
	}
	secrets := kube.StoreOf[*corev1.Secret](w.admin)
	values, err := secrets.List(ctx, namespace, fleet.LabelManaged+"=true")
	if err != nil {
		return err
	}
	for _, s := range values {
		if err := secrets.Delete(ctx, kube.KeyOf(s), kube.Precondition{}); err != nil {
			return err
		}
	}
	_, err = kube.StoreOf[*fleet.Cluster](w.admin).PatchRaw(ctx, w.in(name), "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	return err
}

// joinCluster lets an agent report for the first time, or once more.
func (m *model) joinCluster() edit {
	name := m.some("c", maxClusters)
	c := m.clusters[name]
	if c == nil || c.leaving {
		return m.moveOne(name)
	}
	c.joined = true
	return edit{"agent of " + name + " reports", func(w *world) error {
		return w.agents.join(w.t.Context(), w.in(name), naming.ClusterNamespace(w.workspace, name))
	}}
}
