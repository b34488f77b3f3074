package controllers_test

import (
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestLimits plays how GitRepoRestrictions and Policies change deployments, and what they
// refuse, in one world, in order.
func TestLimits(t *testing.T) { synctest.Test(t, limitsBubble) }

func limitsBubble(t *testing.T) {
	w := newWorld(t)
	c1 := w.addCluster("c1", map[string]string{"env": "dev"})
	w.addCluster("c2", map[string]string{"env": "prod"})
	for _, s := range []struct {
		name   string
		report func(*testing.T, *world, *agent)
	}{{"Options", limitsChangeOptions}, {"Refusal", limitsRefuse}} {
		t.Log("=== ", s.name)
		s.report(t, w, c1)
	}
}

// guarded is a Bundle that a user has written, with a service account and a target namespace.
func guarded(name string, targets ...fleet.BundleTarget) *fleet.Bundle {
	b := bundle(name, "x", targets...)
	b.Labels = nil
	b.Spec.ServiceAccount, b.Spec.TargetNamespace = "deployer", "shop"
	return b
}

// limitsChangeOptions: a Policy that requires accounts takes away the creation of namespaces,
// and a restriction gives every deployment its selector. What is not changed is not written.
func limitsChangeOptions(t *testing.T, w *world, _ *agent) {
	w.create(guarded("app", everywhere()))
	w.readyOn("app", "2/2")
	options := func() string {
		o, text := w.deployment("app", "c1").Spec.Options, ""
		if o.CreateNamespace != nil && !*o.CreateNamespace {
			text = "creates no namespace "
		}
		if s := o.AllowedTargetNamespaceSelector; s != nil {
			text += labels.Set(s.MatchLabels).String()
		}
		return text
	}
	before := w.deployment("app", "c1")
	w.create(&fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "harmless"}, AllowedServiceAccounts: []string{"deployer"}})
	time.Sleep(time.Second)
	w.settle()
	if now := w.deployment("app", "c1"); now.Generation != before.Generation {
		t.Error("a limit that changes nothing has written the deployment")
	}
	w.create(&fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "accounts"}, RequireServiceAccount: true})
	sees(w, "no namespace is created", "creates no namespace ", options)
	w.create(&fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "r"},
		AllowedTargetNamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}})
	sees(w, "the selector is there", "creates no namespace team=shop", options)
	w.readyOn("app", "2/2")
	update(w, in("accounts"), func(p *fleet.Policy) { p.AllowNamespaceCreation = true })
	sees(w, "a Policy that allows it counts", "team=shop", options)
	remove[*fleet.GitRepoRestriction](w, in("r"))
	sees(w, "and all is as before", "", options)
	if now := w.deployment("app", "c1"); now.Spec.DeploymentID != before.Spec.DeploymentID {
		t.Errorf("want the id %s, got %s", before.Spec.DeploymentID, now.Spec.DeploymentID)
	}
	w.readyOn("app", "2/2")
}

// limitsRefuse: what a Bundle says about one target is judged as well. What is deployed
// stays, what is no target any more goes, and a Bundle that is refused can be deleted.
func limitsRefuse(t *testing.T, w *world, _ *agent) {
	const why = "disallowed serviceAccount admin in target prod: admin not in allowed set [deployer]"
	before := w.deployment("app", "c1").Spec.DeploymentID
	custom := where("env", "prod")
	custom.Name, custom.ServiceAccount = "prod", "admin"
	update(w, in("app"), func(b *fleet.Bundle) {
		b.Spec.Targets = []fleet.BundleTarget{custom, everywhere()}
		b.Spec.Resources[0].Content = "new"
	})
	sees(w, "refused as a whole", "False PolicyViolation: "+why, bundleReady(w, "app"))
	w.settle()
	if now := w.deployment("app", "c1").Spec.StagedDeploymentID; now != before {
		t.Errorf("want the version %s, got %s", before, now)
	}
	events := 0
	list, err := kube.StoreOf[*eventsv1.Event](w.admin).List(t.Context(), workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Reason == fleet.EventPolicyViolation && e.Regarding.Name == "app" {
			events++
			if want := "Bundle in namespace " + workspace + " violates Policy: " + why; e.Note != want {
				t.Errorf("want the event %q, got %q", want, e.Note)
			}
		}
	}
	if events != 1 {
		t.Errorf("want one event, got %d", events)
	}
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{custom} })
	sees(w, "it leaves what is no target", "c2", w.on("app"))
	remove[*fleet.Bundle](w, in("app"))
	sees(w, "and goes when it is deleted", "", w.on("app"))
	w.until("the Bundle itself goes", func() bool { return get[*fleet.Bundle](w, kube.Key{Namespace: workspace, Name: "app"}) == nil })
}
