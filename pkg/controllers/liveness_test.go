package controllers_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// waiting is the message of condition Waiting of a Bundle; empty where there is
// none.
func waiting(w *world, name string) func() string {
	return func() string {
		w.t.Helper()
		if c := condition.Find(get[*fleet.Bundle](w, in(name)).Status.Conditions, fleet.ConditionWaiting); c != nil {
			return c.Message
		}
		return ""
	}
}

// runs reports which clusters run what they should by the Bundle's resources: c1
// where it does, c1? where it was promoted and has not answered.
func runs(w *world, bundle string, clusters ...string) func() string {
	old := map[string]string{}
	for _, c := range clusters {
		if bd := w.deployment(bundle, c); bd != nil {
			old[c] = bd.Spec.DeploymentID
		}
	}
	return func() string {
		w.t.Helper()
		var out []string
		for _, c := range clusters {
			bd := w.deployment(bundle, c)
			switch {
			case bd == nil || bd.Spec.DeploymentID == old[c]:
			case bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID:
				out = append(out, c)
			default:
				out = append(out, c+"?")
			}
		}
		return strings.Join(out, " ")
	}
}

func ring(limit int32, name string) fleet.Partition {
	n := intstr.FromInt32(limit)
	return fleet.Partition{Name: name, MaxUnavailable: &n, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ring": name}}}
}

// TestPartitions: nothing waits for an offline cluster, everything after a
// partition waits for one that fails, and who is in no partition is counted.
func TestPartitions(t *testing.T) { synctest.Test(t, partitionsBubble) }

func partitionsBubble(t *testing.T) {
	w := &world{t: t, agents: map[string]*agent{}, checkin: strict} // a cluster is to be Offline
	w.open()
	for name, r := range map[string]string{"c1": "one", "c2": "one", "c3": "two", "c4": "three", "c5": "none"} {
		w.addCluster(name, map[string]string{"ring": r})
	}
	b := bundle("app", "v1", everywhere())
	b.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{ring(1, "one"), ring(1, "two"), ring(1, "three")}}
	w.create(b)
	outside := "1 cluster is in no partition of the rollout strategy and never gets the bundle: fleet-default/c5"
	sees(w, "c5 is forgotten, and counted", outside, waiting(w, "app"))
	sees(w, "the others have it", "c1 c2 c3 c4", w.on("app"))
	sees(w, "and run it", "4/5", func() string { return get[*fleet.Bundle](w, in("app")).Status.Display.ReadyClusters })

	w.agents["c1"].set(func() { w.agents["c1"].online = false })
	sees(w, "c1 is offline", fleet.Offline, func() string { return get[*fleet.Cluster](w, in("c1")).Status.Display.State })
	w.agents["c3"].set(func() { w.agents["c3"].broken["app"] = "no such thing" })
	has := runs(w, "app", "c1", "c2", "c3", "c4")
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "v2" })
	sees(w, "ring one does not wait for c1, ring three not for c3 alone", "c1? c2 c3? c4", has)
	sees(w, "c1 is counted apart", outside+"; 1 cluster is deferred: it is offline, silent or outside of its change windows", waiting(w, "app"))
	sees(w, "and not among the unavailable", 1, func() int { return get[*fleet.Bundle](w, in("app")).Status.Unavailable })

	has = runs(w, "app", "c1", "c2", "c3", "c4")
	update(w, in("app"), func(b *fleet.Bundle) {
		b.Spec.Resources[0].Content = "v3"
		b.Spec.RolloutStrategy.Partitions[1] = ring(0, "two")
	})
	sees(w, "now ring three waits for ring two", "c1? c2 c3?", has)
	sees(w, "and says so", true, func() bool {
		return strings.HasPrefix(waiting(w, "app")(), `partition "three" waits for partition "two": 1 not there yet, 0 allowed: fleet-default/c3`)
	})
	w.agents["c3"].set(func() { delete(w.agents["c3"].broken, "app") })
	w.agents["c1"].set(func() { w.agents["c1"].online = true })
	sees(w, "all that are meant to have it run it", "c1 c2 c3 c4", has)
	sees(w, "no cluster but c5 waits, for ever", outside, waiting(w, "app"))
}

// TestSilent: a cluster that dies as its turn comes is waited for two minutes,
// although its check-in is due much later.
func TestSilent(t *testing.T) { synctest.Test(t, silentBubble) }

func silentBubble(t *testing.T) {
	w := &world{t: t, agents: map[string]*agent{}, checkin: time.Hour}
	w.open()
	for _, name := range []string{"c1", "c2", "c3"} {
		w.addCluster(name, nil)
	}
	b := bundle("app", "v1", everywhere())
	one := intstr.FromInt32(1)
	b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &one}
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "app"))
	w.agents["c1"].set(func() { w.agents["c1"].online = false })
	has := runs(w, "app", "c1", "c2", "c3")
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "v2" })
	sees(w, "c1 has its turn", "c1?", has)
	sees(w, "the others wait for it", true, func() bool {
		return strings.HasPrefix(waiting(w, "app")(), "waits for room: 1 unavailable, 1 allowed: fleet-default/c1")
	})
	start := time.Now()
	for deadline := start.Add(3 * time.Minute); has() != "c1? c2 c3"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waits: %s, %s", has(), waiting(w, "app")())
		}
	}
	if took := time.Since(start); took < 115*time.Second {
		t.Errorf("c1 was waited for only %s", took)
	}
	sees(w, "c1 is counted apart", "1 cluster is deferred: it is offline, silent or outside of its change windows", waiting(w, "app"))
	w.agents["c1"].set(func() { w.agents["c1"].online = true })
	sees(w, "it takes it when it is back", "c1 c2 c3", has)
	sees(w, "and no cluster waits", "", waiting(w, "app"))
	sees(w, "Ready", "True", bundleReady(w, "app"))
}
