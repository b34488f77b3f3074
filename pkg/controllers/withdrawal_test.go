package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	engine "github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// TestWithdrawalsStop: withdrawals that a change of targets causes come in
// portions, and end when it is undone; nothing was lost.
func TestWithdrawalsStop(t *testing.T) { synctest.Test(t, withdrawalsStopBubble) }

func withdrawalsStopBubble(t *testing.T) {
	w := newWorld(t)
	update(w, kube.Key{Name: workspace}, func(n *corev1.Namespace) { annotate(n, fleet.AnnotationDeletionBudget, "off") })
	w.settle()
	const clusters = 13
	for i := range clusters {
		w.addCluster(fmt.Sprintf("c%02d", i), map[string]string{"env": "prod"})
	}
	b := bundle("web", "x", where("env", "prod"))
	b.Labels = nil
	w.create(b)
	w.readyOn("web", "13/13")
	uids := map[string]bool{}
	for i := range clusters {
		uids[string(w.deployment("web", fmt.Sprintf("c%02d", i)).UID)] = true
	}
	for _, a := range w.agents {
		a.set(func() { a.working = false })
	}
	update(w, in("web"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{where("env", "moon")} })
	sees(w, "ten are ordered to leave", 10, func() int { return strings.Count(w.on("web")(), "!") })
	update(w, in("web"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{where("env", "prod")} })
	sees(w, "none any more", 0, func() int { return strings.Count(w.on("web")(), "!") })
	for _, a := range w.agents {
		a.set(func() { a.working = true })
	}
	sees(w, "Ready", "True", bundleReady(w, "web"))
	for i := range clusters {
		if bd := w.deployment("web", fmt.Sprintf("c%02d", i)); !uids[string(bd.UID)] || bd.Status.AppliedDeploymentID == "" {
			t.Errorf("c%02d was lost", i)
		}
	}
}

// TestContentGoes: a content that nothing holds is deleted, also if nothing ever
// did; one that is held, and one of another installation, stay.
func TestContentGoes(t *testing.T) { synctest.Test(t, contentGoesBubble) }

func contentGoesBubble(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.halt()
	w.halt = func() {}
	w.addCluster("c1", map[string]string{"env": "prod"})
	keep := func(text, owner string) string {
		c, err := content.New(content.Manifest{Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: text}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Labels = map[string]string{fleet.LabelManagerID: owner}
		if _, err := kube.StoreOf[*fleet.Content](w.admin).Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return c.Name
	}
	never, foreign := keep("never held", "test"), keep("of others", "another")
	log := logrus.New()
	log.SetOutput(logWriter{t})
	e := engine.New(engine.Config{
		Namespace: fleet.NamespaceSystem, ManagerID: "test", CheckinInterval: checkin, ContentGrace: 5 * time.Second,
	}, w.client("fleet-controller/test", fleet.FieldManagerController), logrus.NewEntry(log))
	ctx, stop := context.WithCancel(context.Background())
	done := running(func() error {
		return kube.Run(ctx, func(loop string, key kube.Key, err error) { t.Logf("%s %s: %v", loop, key, err) }, e.Runnables()...)
	})
	w.halt = func() { stop(); <-done }
	there := func(name string) bool { return get[*fleet.Content](w, kube.Key{Name: name}) != nil }
	w.until("what was never held goes", func() bool { return !there(never) })
	b := bundle("web", "one", everywhere())
	b.Labels = nil
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "web"))
	first := w.deployment("web", "c1").Labels[fleet.LabelContentName]
	update(w, in("web"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "two" })
	w.until("what is not held any more goes", func() bool { return !there(first) })
	if second := w.deployment("web", "c1").Labels[fleet.LabelContentName]; second == first || !there(second) {
		t.Error("what is held stays")
	}
	if !there(foreign) {
		t.Error("what is another installation's was deleted")
	}
}

// running runs f; the channel is closed when it has returned.
func running(f func() error) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f()
	}()
	return done
}
