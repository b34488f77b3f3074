package controllers_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// lent is a mapping of the workspace for Bundles with label app=lent to
// namespaces with label open=yes.
func lent() *fleet.BundleNamespaceMapping {
	return &fleet.BundleNamespaceMapping{
		ObjectMeta:        metav1.ObjectMeta{Namespace: workspace, Name: "lent"},
		BundleSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "lent"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"open": "yes"}},
	}
}

// lentBundle is a Bundle that the mapping is for.
func lentBundle(name string, targets ...fleet.BundleTarget) *fleet.Bundle {
	b := bundle(name, "x", targets...)
	b.Labels = map[string]string{"app": "lent"}
	return b
}

// TestMappings reports how Bundles go to clusters of other namespaces, and leave
// them, in one world, in order.
func TestMappings(t *testing.T) { synctest.Test(t, mappingsBubble) }

func mappingsBubble(t *testing.T) {
	w := newWorld(t)
	for ns, labels := range map[string]map[string]string{"shops": {"open": "yes"}, "depots": nil} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}})
	}
	update(w, kube.Key{Name: workspace}, func(ns *corev1.Namespace) { // many leave in a short time
		ns.Annotations = map[string]string{fleet.AnnotationDeletionBudget: "off"}
	})
	w.settle()
	w.addCluster("c1", map[string]string{"env": "dev"})
	w.addClusterIn("shops", "s1", map[string]string{"env": "dev"})
	w.addClusterIn("depots", "d1", map[string]string{"env": "dev"})
	cases := []struct {
		name   string
		report func(*testing.T, *world)
	}{
		{"MappingComes", mappingComes}, {"Groups", groupsOfTheCluster}, {"Namespaces", namespaceLabels}, {"Labels", foreignLabels},
		{"Broken", brokenMapping}, {"SameName", sameName}, {"Limit", limitOfTheCluster}, {"MappingGoes", mappingGoes},
	}
	for _, s := range cases {
		t.Log("=== ", s.name)
		s.report(t, w)
	}
}

// mappingComes: a Bundle stays at home until a mapping leads it elsewhere.
func mappingComes(t *testing.T, w *world) {
	w.create(lentBundle("web", everywhere()))
	w.create(bundle("own", "x", everywhere()))
	sees(w, "at home", "True", bundleReady(w, "web"))
	sees(w, "only at home", "c1", w.on("web"))
	w.create(lent())
	sees(w, "the mapping leads it to the open namespace", "c1 s1", w.on("web"))
	sees(w, "both count", "2/2", func() string { return get[*fleet.Bundle](w, in("web")).Status.Display.ReadyClusters })
	sees(w, "Ready", "True", bundleReady(w, "web"))
	bd := get[*fleet.BundleDeployment](w, kube.Key{Namespace: naming.ClusterNamespace("shops", "s1"), Name: "web"})
	if l := bd.Labels; l[fleet.LabelBundleNamespace] != workspace || l[fleet.LabelClusterNamespace] != "shops" {
		t.Errorf("labels %v", l)
	}
	sees(w, "the cluster counts the guest", "1/1", func() string {
		return get[*fleet.Cluster](w, kube.Key{Namespace: "shops", Name: "s1"}).Status.Display.ReadyBundles
	})
	if got := w.on("own")(); got != "c1" {
		t.Errorf("a Bundle that the mapping is not for is on %s", got)
	}
	update(w, in("own"), func(b *fleet.Bundle) { b.Labels["app"] = "lent" })
	sees(w, "a label of the Bundle lets it go there", "c1 s1", w.on("own"))
	update(w, in("own"), func(b *fleet.Bundle) { delete(b.Labels, "app") })
	sees(w, "and without it it leaves", "c1", w.on("own"))
}

// groupsOfTheCluster: the groups of a cluster are those of its own namespace.
func groupsOfTheCluster(_ *testing.T, w *world) {
	for ns, selector := range map[string]string{workspace: "none", "shops": "dev"} {
		w.create(&fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "dev"},
			Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": selector}}}})
	}
	w.create(lentBundle("grouped", fleet.BundleTarget{ClusterGroup: "dev"}))
	sees(w, "by the group of that name where the cluster is", "s1", w.on("grouped"))
	update(w, kube.Key{Namespace: "shops", Name: "dev"}, func(g *fleet.ClusterGroup) {
		g.Spec.Selector.MatchLabels = map[string]string{"env": "none"}
	})
	sees(w, "a change of a group there counts", "", w.on("grouped"))
	sees(w, "and says why", "False NoTargets: targets none of 2 clusters: target 1 wants clusterGroup dev, c1 is in no cluster group",
		bundleReady(w, "grouped"))
	remove[*fleet.Bundle](w, in("grouped"))
}

// namespaceLabels: what a mapping leads to follows the labels of namespaces.
func namespaceLabels(_ *testing.T, w *world) {
	depots := kube.Key{Name: "depots"}
	update(w, depots, func(ns *corev1.Namespace) { ns.Labels["open"] = "yes" })
	sees(w, "a label opens a namespace", "c1 d1 s1", w.on("web"))
	update(w, depots, func(ns *corev1.Namespace) { delete(ns.Labels, "open") })
	sees(w, "its absence closes it", "c1 s1", w.on("web"))
	sees(w, "Ready", "True", bundleReady(w, "web"))
}

// foreignLabels: a change of a cluster counts for guests as well.
func foreignLabels(_ *testing.T, w *world) {
	s1 := kube.Key{Namespace: "shops", Name: "s1"}
	w.create(lentBundle("prod", where("env", "prod")))
	sees(w, "nowhere yet", "False NoTargets: targets none of 2 clusters: target 1 \"prod\" wants env=prod, c1 has env=dev", bundleReady(w, "prod"))
	update(w, s1, func(c *fleet.Cluster) { c.Labels["env"] = "prod" })
	sees(w, "a label makes it arrive", "s1", w.on("prod"))
	update(w, s1, func(c *fleet.Cluster) { c.Labels["env"] = "dev" })
	sees(w, "its absence makes it leave", "", w.on("prod"))
	remove[*fleet.Bundle](w, in("prod"))
}

// brokenMapping: a mapping that cannot be read takes nothing away.
func brokenMapping(t *testing.T, w *world) {
	before := get[*fleet.BundleDeployment](w, kube.Key{Namespace: naming.ClusterNamespace("shops", "s1"), Name: "web"})
	update(w, in("lent"), func(m *fleet.BundleNamespaceMapping) {
		m.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "open", Operator: "Perhaps"}}
	})
	w.until("an event says so", func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](w.admin).List(w.t.Context(), workspace, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Regarding.Name == "lent" && e.Reason == "InvalidSelector" && strings.Contains(e.Note, "Perhaps") {
				return true
			}
		}
		return false
	})
	w.create(lentBundle("late", everywhere()))
	sees(w, "nothing new goes by it", "True", bundleReady(w, "late"))
	sees(w, "nothing new goes by it", "c1", w.on("late"))
	sees(w, "nothing leaves", "c1 s1", w.on("web"))
	sees(w, "what is there is Ready", "2/2", func() string { return get[*fleet.Bundle](w, in("web")).Status.Display.ReadyClusters })
	update(w, in("lent"), func(m *fleet.BundleNamespaceMapping) { m.NamespaceSelector.MatchExpressions = nil })
	sees(w, "repaired", "c1 s1", w.on("late"))
	after := get[*fleet.BundleDeployment](w, kube.KeyOf(before))
	if after == nil || after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the deployment was touched: %v", after)
	}
	remove[*fleet.Bundle](w, in("late"))
}

// sameName: two Bundles of one name cannot both be on a cluster. Who was there
// first stays.
func sameName(t *testing.T, w *world) {
	shops := kube.Key{Namespace: "shops", Name: "web"}
	b := lentBundle("web", everywhere())
	b.Namespace = "shops"
	w.create(b)
	why := `Bundle "web" of namespace fleet-default is deployed to this cluster under the same name: rename one of the two`
	shopsReady := ready(w, shops, func(b *fleet.Bundle) []fleet.Condition { return b.Status.Conditions })
	sees(w, "the second has a condition", "False ErrApplied: ErrApplied(1) [Cluster shops/s1: "+why+"]", shopsReady)
	sees(w, "the first is not touched", "True", bundleReady(w, "web"))
	update(w, in("web"), func(b *fleet.Bundle) { delete(b.Labels, "app") })
	sees(w, "when the first leaves, the second comes", "True", shopsReady)
	update(w, in("web"), func(b *fleet.Bundle) { b.Labels = map[string]string{"app": "lent"} })
	sees(w, "and now it is the other way round", "False ErrApplied: ErrApplied(1) [Cluster shops/s1: "+
		strings.Replace(why, workspace, "shops", 1)+"]", bundleReady(w, "web"))
	remove[*fleet.Bundle](w, shops)
	sees(w, "and free again", "True", bundleReady(w, "web"))
}

// limitOfTheCluster: the limits of a namespace count for Bundles of other namespaces that come
// there.
func limitOfTheCluster(_ *testing.T, w *world) {
	w.create(&fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "p"}, RequireServiceAccount: true})
	w.settle()
	w.create(lentBundle("guarded", everywhere()))
	sees(w, "held back there alone", "False Pending: Pending(1) [Cluster shops/s1: serviceAccount is required by Policy but is not set]", bundleReady(w, "guarded"))
	sees(w, "held back there alone", "c1", w.on("guarded"))
	remove[*fleet.Policy](w, kube.Key{Namespace: "shops", Name: "p"})
	sees(w, "and then it comes", "c1 s1", w.on("guarded"))
	sees(w, "Ready", "True", bundleReady(w, "guarded"))
}

// mappingGoes: without its mapping a Bundle leaves by order, and goes back to
// being at home alone. A restart in between changes nothing.
func mappingGoes(t *testing.T, w *world) {
	home := w.deployment("web", "c1")
	guest := get[*fleet.BundleDeployment](w, kube.Key{Namespace: naming.ClusterNamespace("shops", "s1"), Name: "web"})
	w.halt()
	w.start()
	w.create(lentBundle("probe", where("env", "dev")))
	sees(w, "the engine works", "c1 s1", w.on("probe"))
	sees(w, "Ready", "True", bundleReady(w, "probe"))
	if after := get[*fleet.BundleDeployment](w, kube.KeyOf(guest)); after.ResourceVersion != guest.ResourceVersion {
		t.Errorf("the restart has written: %v", after.Annotations)
	}
	s1 := w.agents["s1"]
	s1.set(func() { s1.working = false })
	remove[*fleet.BundleNamespaceMapping](w, in("lent"))
	sees(w, "an order goes to the agent", "c1 s1!", w.on("web"))
	sees(w, "and says why", "no BundleNamespaceMapping leads the Bundle from fleet-default to shops", func() string {
		for _, c := range get[*fleet.Bundle](w, in("web")).Status.Conditions {
			if c.Type == fleet.ConditionWithdrawing {
				return strings.TrimPrefix(c.Message, "1 to uninstall: ")
			}
		}
		return ""
	})
	s1.set(func() { s1.working = true })
	for _, name := range []string{"web", "guarded", "probe"} {
		sees(w, "gone from there: "+name, "c1", w.on(name))
	}
	sees(w, "Ready at home", "True", bundleReady(w, "web"))
	time.Sleep(100 * time.Millisecond) // a late write would show
	if after := w.deployment("web", "c1"); after.UID != home.UID || after.Generation != home.Generation {
		t.Error("the deployment at home was touched")
	}
}
