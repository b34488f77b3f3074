package controllers_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestRollout plays what holds versions back, in one world.
func TestRollout(t *testing.T) { synctest.Test(t, rolloutBubble) }

func rolloutBubble(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"c1", "c2", "c3"} {
		w.addCluster(name, map[string]string{"name": name})
	}
	cases := []struct {
		name   string
		report func(*testing.T, *world)
	}{
		{"Paused", pausedIsStaged}, {"OneByOne", oneByOne}, {"Template", templateStopsOneCluster},
		{"Namespace", namespaceComesBack}, {"ReferenceAgent", referenceAgent}, {"Pace", manyLeaveSlowly},
	}
	for _, s := range cases {
		t.Log("=== ", s.name)
		s.report(t, w)
	}
}

func pausedIsStaged(t *testing.T, w *world) {
	b := w.withValues(bundle("app", "v1", everywhere()), map[string]any{"v": "1"})
	w.create(b)
	w.readyOn("app", "3/3")
	old := w.deployment("app", "c1")
	data := map[string][]byte{"values.yaml": []byte(`{"v":"2"}`)}
	update(w, in("app"), func(s *corev1.Secret) { s.Data = data })
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Paused, b.Spec.ValuesHash = true, options.BundleValuesHash(data) })
	sees(w, "held back", "False OutOfSync: OutOfSync(3) [Cluster fleet-default/c1: paused]", bundleReady(w, "app"))
	var bd *fleet.BundleDeployment
	w.until("and staged", func() bool {
		bd = w.deployment("app", "c1")
		return bd.Spec.StagedDeploymentID != old.Spec.StagedDeploymentID && bd.Spec.Paused
	})
	if bd.Spec.DeploymentID != old.Spec.DeploymentID || bd.Spec.StagedDeploymentID == old.Spec.StagedDeploymentID || !bd.Spec.Paused {
		t.Errorf("ids %s, %s", bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID)
	}
	s := get[*corev1.Secret](w, kube.KeyOf(bd))
	if string(s.Data["values"]) != `{"v":"1"}` || string(s.Data["stagedValues"]) != `{"v":"2"}` {
		t.Errorf("secret %s", s.Data)
	}
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Paused = false })
	sees(w, "goes on", "True", bundleReady(w, "app"))
	if s := get[*corev1.Secret](w, kube.KeyOf(bd)); string(s.Data["values"]) != `{"v":"2"}` {
		t.Errorf("secret %s", s.Data)
	}
}

// oneByOne: with maxUnavailable 1 no two clusters are ever down at once.
func oneByOne(t *testing.T, w *world) {
	b := bundle("slow", "v1", everywhere())
	one := intstr.FromInt32(1)
	b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &one}
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "slow"))
	update(w, in("slow"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "v2" })
	w.until("all have v2", func() bool {
		down, done := 0, 0
		list, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).List(t.Context(), "", fleet.LabelBundleName+"=slow") // all of one moment
		if err != nil {
			t.Fatal(err)
		}
		for _, bd := range list {
			if bd.Spec.DeploymentID != bd.Status.AppliedDeploymentID {
				down++
			}
			if bd.Spec.DeploymentID == bd.Spec.StagedDeploymentID && bd.Labels[fleet.LabelContentName] != "" &&
				bd.Status.AppliedDeploymentID == bd.Spec.StagedDeploymentID {
				done++
			}
		}
		if down > 1 {
			t.Errorf("%d clusters are down at once", down)
		}
		b := get[*fleet.Bundle](w, in("slow"))
		return done == 3 && b.Status.ObservedGeneration == b.Generation
	})
	sees(w, "Ready", "True", bundleReady(w, "slow"))
}

func templateStopsOneCluster(_ *testing.T, w *world) {
	update(w, in("c1"), func(c *fleet.Cluster) { c.Labels["zone"] = "a" })
	update(w, in("c3"), func(c *fleet.Cluster) { c.Labels["zone"] = "b" })
	w.create(w.withValues(bundle("zoned", "x", everywhere()), map[string]any{"zone": "${ .ClusterLabels.zone }"}))
	sees(w, "the others get it", "c1 c3", w.on("zoned"))
	sees(w, "and the cluster without the label is named", "ErrApplied 2/3", func() string {
		b := get[*fleet.Bundle](w, in("zoned"))
		return b.Status.Display.State + " " + b.Status.Display.ReadyClusters
	})
	update(w, in("c2"), func(c *fleet.Cluster) { c.Labels["zone"] = "c" })
	sees(w, "a label repairs it", "True", bundleReady(w, "zoned"))
}

// namespaceComesBack: the deletion of a cluster's namespace costs nothing but
// time.
func namespaceComesBack(t *testing.T, w *world) {
	ns := w.agents["c3"].namespace
	before := w.deployment("app", "c3")
	remove[*corev1.Namespace](w, kube.Key{Name: ns})
	w.until("it is gone", func() bool { return get[*corev1.Namespace](w, kube.Key{Name: ns}) == nil })
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	sees(w, "the deployment is back", "c1 c2 c3", w.on("app"))
	after := w.deployment("app", "c3")
	if after.Spec.DeploymentID != before.Spec.DeploymentID || after.Annotations[fleet.AnnotationWithdrawn] != "" {
		t.Errorf("was %s, is %s", before.Spec.DeploymentID, after.Spec.DeploymentID)
	}
	sees(w, "with its values", true, func() bool { return get[*corev1.Secret](w, kube.KeyOf(after)) != nil })
	sees(w, "Ready", "True", bundleReady(w, "app"))
}

// referenceAgent: the manager withdraws from an agent that does not know orders
// by deletion, and the reference's finalizer does not stop it.
func referenceAgent(_ *testing.T, w *world) {
	name, ns := "ref", "cluster-ref"
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	w.create(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{"ref": "yes"},
		Annotations: map[string]string{registration.AnnotationDeploymentNamespace: ns}}})
	setStatus(w, in(name), func(c *fleet.Cluster) {
		c.Status.Namespace = ns
		c.Status.Agent.LastSeen = metav1.NewTime(time.Now())
	})
	w.create(bundle("refapp", "x", where("ref", "yes")))
	key := kube.Key{Namespace: ns, Name: "refapp"}
	w.until("deployed", func() bool { return get[*fleet.BundleDeployment](w, key) != nil })
	setStatus(w, key, func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = bd.Spec.DeploymentID })
	update(w, key, func(bd *fleet.BundleDeployment) {
		bd.Finalizers = append(bd.Finalizers, fleet.FinalizerBundleDeployment)
	})
	w.until("the reference's finalizer is stripped", func() bool {
		return len(get[*fleet.BundleDeployment](w, key).Finalizers) == 0
	})
	remove[*fleet.Bundle](w, in("refapp"))
	w.until("deleted", func() bool { return get[*fleet.BundleDeployment](w, key) == nil })
	w.until("the Bundle goes", func() bool { return get[*fleet.Bundle](w, in("refapp")) == nil })
	remove[*fleet.Cluster](w, in(name))
}

// manyLeaveSlowly: a mistake in a selector withdraws 10 at once, and can be
// undone for the rest.
func manyLeaveSlowly(_ *testing.T, w *world) {
	for i := range 12 {
		w.addCluster("m"+string(rune('a'+i)), map[string]string{"crowd": "yes"})
	}
	update(w, kube.Key{Name: workspace}, func(n *corev1.Namespace) { n.Annotations = map[string]string{fleet.AnnotationDeletionBudget: "off"} })
	w.settle()
	w.create(bundle("crowded", "x", where("crowd", "yes")))
	sees(w, "Ready on all", "12/12", func() string { return get[*fleet.Bundle](w, in("crowded")).Status.Display.ReadyClusters })
	update(w, in("crowded"), func(b *fleet.Bundle) { b.Spec.Targets[0].ClusterSelector = where("crowd", "no").ClusterSelector })
	sees(w, "ten leave", "mk ml", w.on("crowded"))
	sees(w, "the rest is announced", "2 to uninstall: target 1 \"yes\" wants crowd=no, mk has crowd=yes", func() string {
		if c := condition.Find(get[*fleet.Bundle](w, in("crowded")).Status.Conditions, fleet.ConditionWithdrawing); c != nil {
			return c.Message
		}
		return ""
	})
	update(w, in("crowded"), func(b *fleet.Bundle) { b.Spec.Targets[0].ClusterSelector = where("crowd", "yes").ClusterSelector })
	sees(w, "and taken back", "12/12", func() string { return get[*fleet.Bundle](w, in("crowded")).Status.Display.ReadyClusters })
}
