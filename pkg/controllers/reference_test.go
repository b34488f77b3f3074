package controllers_test

import (
	"testing"
	"testing/synctest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// TestReferenceAgent: an agent that gives no protocol number gets the order to uninstall
// as the reference's manager does it, by deleting the object; one that does is
// ordered and waited for.
func TestReferenceAgent(t *testing.T) { synctest.Test(t, referenceAgentBubble) }

func referenceAgentBubble(t *testing.T) {
	w := newWorld(t)
	prod := map[string]string{"env": "prod"}
	w.addCluster("ours", prod)
	w.speaks = fleet.FieldManagerRelease
	w.addCluster("theirs", prod)
	w.create(bundle("web", "x", where("env", "prod")))
	w.readyOn("web", "2/2")
	for _, name := range []string{"ours", "theirs"} { // both have said which protocol they speak
		w.until(name+" has reported", func() bool {
			c := get[*fleet.Cluster](w, in(name))
			return !c.Status.Agent.LastSeen.IsZero()
		})
	}
	for _, a := range w.agents {
		a.set(func() { a.working = false })
	}
	w.settle()
	before := len(w.server.Requests())
	update(w, in("web"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{where("env", "moon")} })

	key := kube.Key{Namespace: naming.ClusterNamespace(workspace, "theirs"), Name: "web"}
	sees(w, "deleted at once", true, func() bool {
		_, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).Get(t.Context(), key)
		return kube.IsGone(err)
	})
	sees(w, "ordered", true, func() bool { return w.deployment("web", "ours").Annotations[fleet.AnnotationWithdrawn] != "" })
	for _, r := range w.server.Requests()[before:] {
		if r.Resource == "bundledeployments" && r.Namespace == key.Namespace && r.Verb == "patch" && r.Subresource == "" {
			t.Errorf("an agent that knows no orders was given one: %v", r)
		}
	}
	w.agents["ours"].set(func() { w.agents["ours"].working = true })
	sees(w, "deleted after the answer", true, func() bool {
		_, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).Get(t.Context(), kube.Key{Namespace: naming.ClusterNamespace(workspace, "ours"), Name: "web"})
		return kube.IsGone(err)
	})
}
