package takeover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// TestDisplayForAgentsOfTheReference deploys to a cluster with an agent of the reference
// and to one with an agent of this project, beside another manager. The manager that the
// Bundle belongs to writes status.display for the first one, when it changes. For the
// second one no manager writes a status.
func TestDisplayForAgentsOfTheReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.namespace("ws")
	w.joinOfReference(t, "ws", "theirs")
	w.join(t, "ws", "ours")
	began := time.Now()
	w.lone("ws", "app", "1")
	w.label("ws", "app", "takeover")
	w.namespace("system-shard")
	w.manage(t, "default", fleet.NamespaceSystem, scope.Scope{})
	w.manage(t, "shard", "system-shard", scope.Scope{Shard: "takeover"})
	w.runs("ws", "app", 2, nil)
	theirs := kube.Key{Namespace: naming.ClusterNamespace("ws", "theirs"), Name: "app"}
	w.displays(theirs, fleet.BundleDeploymentDisplay{Deployed: "True", State: "Ready"})

	settled := time.Now()
	w.reports(theirs, func(st *fleet.BundleDeploymentStatus) {
		st.ResourceCounts = fleet.ResourceCounts{DesiredReady: 1, Ready: 1}
	})
	w.reports(theirs, func(st *fleet.BundleDeploymentStatus) {
		st.Ready = false
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionMonitored, Status: "False",
			Reason: fleet.ReasonError, Message: "no such kind"}, time.Now())
	})
	w.displays(theirs, fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "Error: no such kind", State: "NotReady"})

	if got := w.statusWrites(settled, theirs.Namespace); len(got) != 1 || got[0] != "shard" {
		t.Errorf("status.display changed once, and was written by %q, want the manager of the shard once", got)
	}
	for _, name := range w.statusWrites(began, theirs.Namespace) {
		if name != "shard" {
			t.Errorf("manager %q wrote the status of a deployment that is not its own", name)
		}
	}
	ours := kube.Key{Namespace: naming.ClusterNamespace("ws", "ours"), Name: "app"}
	w.displays(ours, fleet.BundleDeploymentDisplay{})
	if got := w.statusWrites(began, ours.Namespace); len(got) > 0 {
		t.Errorf("managers %q wrote the status of a deployment whose agent is this project's", got)
	}
}

// reports changes the status of a deployment as the reference's agent does: the whole
// status is sent, with the display that was read.
func (w *world) reports(key kube.Key, change func(*fleet.BundleDeploymentStatus)) {
	w.Helper()
	deployments := kube.StoreOf[*fleet.BundleDeployment](w.connect("agent/test", fleet.FieldManagerRelease))
	w.until("the agent reports "+key.String(), func() bool {
		bd, err := deployments.Get(w.Context(), key)
		w.must(err)
		change(&bd.Status)
		_, err = deployments.UpdateStatus(w.Context(), bd)
		return err == nil
	})
}

// displays waits until a deployment displays something.
func (w *world) displays(key kube.Key, want fleet.BundleDeploymentDisplay) {
	w.Helper()
	deployments := kube.StoreOf[*fleet.BundleDeployment](w.admin)
	w.until(fmt.Sprintf("deployment %s displays %+v", key, want), func() bool {
		bd, err := deployments.Get(w.Context(), key)
		w.must(err)
		return bd.Status.Display == want
	})
}

// statusWrites are the managers that have written the status of deployments in a namespace
// since a moment, one entry for each time.
func (w *world) statusWrites(since time.Time, namespace string) []string {
	w.Helper()
	var out []string
	for _, r := range w.writes(since) {
		name, _, _ := strings.Cut(r.Agent, "/")
		if r.Namespace == namespace && r.What() == "bundledeployments/status" && name != "agent" && name != "test" {
			out = append(out, name)
		}
	}
	return out
}
