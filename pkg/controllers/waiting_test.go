package controllers_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestWaitingBundlesRest: two Bundles of one repository that both wait with their
// withdrawals do not enqueue each other. In a bubble, a manager that never rests hangs.
func TestWaitingBundlesRest(t *testing.T) { synctest.Test(t, waitingBundlesRest) }

func waitingBundlesRest(t *testing.T) {
	w := newWorld(t)
	w.addCluster("c1", map[string]string{"env": "prod"})
	w.readRepo("repo")
	for _, name := range []string{"one", "two"} {
		w.create(bundle(name, "v1", where("env", "prod")))
		w.readyOn(name, "1/1")
	}
	suspended := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapBrake},
		Data: map[string]string{"suspended": "true", "by": "ana", "reason": "audit"}}
	w.create(suspended)
	w.settle()

	update(w, in("c1"), func(c *fleet.Cluster) { c.Labels["env"] = "dev" })
	w.settle()

	if got := w.on("one")() + w.on("two")(); got != "c1c1" {
		t.Errorf("withdrawn while all is suspended: on %s", got)
	}
	remove[*corev1.ConfigMap](w, kube.KeyOf(suspended))
	sees(w, "one leaves", "", w.on("one"))
	sees(w, "two leaves", "", w.on("two"))
}
