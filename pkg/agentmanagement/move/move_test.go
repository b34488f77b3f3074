package move

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// unreadable are the requests for Rancher's Cluster.
var unreadable = kubetest.Match{Verb: "get", Resource: "clusters", Name: "c-1"}

// start returns what a process runs: the loop, and one that asks it about Clusters that are
// deleted and lets those go that need not stay.
func start(c *kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		var l *Loop
		store := kube.StoreOf[*fleet.Cluster](p.Client)
		asks := kube.NewController("asks", 1, func(ctx context.Context, key kube.Key) (kube.Result, error) {
			c, ok := p.Caches.Clusters.Get(key)
			if !ok || c.DeletionTimestamp == nil {
				return kube.Done, nil
			}
			stays, next, err := l.MustStay(ctx, c)
			if err != nil || stays {
				return next, err
			}
			goes := c.DeepCopy()
			goes.Finalizers = nil
			_, err = store.Patch(ctx, c, goes)
			return kube.Done, err
		})
		l = New(Config{Rancher: rancher.NewReader(p.Client), Wake: asks.Add, Now: time.Now}, p.Client, p.Caches, p.Events, p.Log)
		p.Caches.Clusters.OnChange(func(_, c *fleet.Cluster) {
			if c != nil {
				asks.Add(kube.KeyOf(c))
			}
		})
		return append(l.Runnables(), asks)
	})(c)
}

// given makes a Cluster in one workspace, and Rancher's Cluster, which names another one.
func given(to string) func(w *looptest.World) {
	return func(w *looptest.World) {
		w.Server.MakeNamespace("old")
		w.Server.MakeNamespace("new")
		owner := &management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-1"}}
		owner.Spec.FleetWorkspaceName = to
		looptest.Make(w, owner)
		site(w, "old")
	}
}

func site(w *looptest.World, namespace string) {
	looptest.Make(w, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "site", Labels: map[string]string{fleet.LabelManagementCluster: "c-1"}, Finalizers: []string{fleet.FinalizerCluster},
		},
		Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"},
	})
}

func moving(w *looptest.World, namespace string) string {
	c := looptest.Read[*fleet.Cluster](w, namespace, "site")
	if c == nil {
		return "gone"
	}
	if says := condition.Find(c.Status.Conditions, fleet.ConditionMoving); says != nil {
		return says.Reason
	}
	return ""
}

// A Cluster that moves stays until its agent is connected in the other workspace; both
// Clusters say so.
func TestMove(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start, Given: given("new"), Rests: 5 * time.Minute,
		When: func(w *looptest.World) {
			site(w, "new")
			looptest.Remove[*fleet.Cluster](w, "old", "site")
		},
		Then: func(w *looptest.World) {
			if got := [2]string{moving(w, "old"), moving(w, "new")}; got != [2]string{workspace.ReasonMovesAway, workspace.ReasonArrives} {
				w.Errorf("want both to say that it moves, got %v", got)
			}
		},
	})
}

// A Cluster that does not move goes when it is deleted.
func TestDeletedCluster(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start, Given: given("old"),
		When: func(w *looptest.World) { looptest.Remove[*fleet.Cluster](w, "old", "site") },
		Then: func(w *looptest.World) {
			if got := moving(w, "old"); got != "gone" {
				w.Errorf("want it gone, got %q", got)
			}
		},
	})
}

// While Rancher's objects cannot be read, a Cluster that is deleted stays: it may move.
func TestMoveUnseen(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start,
		Given: func(w *looptest.World) {
			given("old")(w)
			w.Server.Forbid(kubetest.Always, unreadable)
		},
		When: func(w *looptest.World) { looptest.Remove[*fleet.Cluster](w, "old", "site") },
		Then: func(w *looptest.World) {
			if got := moving(w, "old"); got != workspace.ReasonRancherUnseen {
				w.Errorf("want it to stay for %s, got %q", workspace.ReasonRancherUnseen, got)
			}
		},
	})
}

// Once the old Cluster is gone, the new one no longer says that it arrives.
func TestMoved(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start, Given: given("new"),
		When: func(w *looptest.World) {
			site(w, "new")
			looptest.Remove[*fleet.Cluster](w, "old", "site")
			w.Pass(time.Minute)
			looptest.Change(w, "old", "site", func(c *fleet.Cluster) { c.Finalizers = nil })
		},
		Then: func(w *looptest.World) {
			if got := [2]string{moving(w, "old"), moving(w, "new")}; got != [2]string{"gone", ""} {
				w.Errorf("want the move over, got %v", got)
			}
		},
	})
}
