package identity

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

func start() func(*kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		return New(Config{Now: time.Now}, p.Client, p.Caches, p.Events, p.Log).Runnables()
	})
}

func given(w *looptest.World) {
	w.Server.MakeNamespace("ws")
	looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}})
}

// reports says that agents report as one Cluster, one after the other.
func reports(w *looptest.World, agents ...string) {
	for _, name := range agents {
		looptest.Change(w, "ws", "site", func(c *fleet.Cluster) {
			c.Status.Agent.Instance, c.Status.Agent.LastSeen = name, metav1.Now()
		})
		w.Pass(5 * time.Second)
	}
}

func has(w *looptest.World, kind string) bool {
	return condition.IsTrue(looptest.Read[*fleet.Cluster](w, "ws", "site").Status.Conditions, kind)
}

// Two agents that keep taking each other's place are two agents of one identity. An agent
// that starts again from time to time is one.
func TestDuplicateIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		agents []string
		want   bool
	}{
		"Two": {agents: []string{"a", "b", "a", "b", "a", "b"}, want: true},
		"One": {agents: []string{"a", "b", "c", "d", "e", "f"}},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(), Given: given, Settles: time.Minute, Rests: time.Minute,
				When: func(w *looptest.World) { reports(w, c.agents...) },
				Then: func(w *looptest.World) {
					if got := has(w, fleet.ConditionDuplicateIdentity); got != c.want {
						w.Errorf("want two agents of one identity: %v, got %v", c.want, got)
					}
				},
			})
		})
	}
}

// The condition ends some time after the agents were last seen.
func TestDuplicateIdentityEnds(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(), Given: given, Settles: 10 * time.Minute,
		When: func(w *looptest.World) {
			reports(w, "a", "b", "a", "b", "a", "b")
			if !has(w, fleet.ConditionDuplicateIdentity) {
				w.Fatal("two agents are not noticed")
			}
		},
		Then: func(w *looptest.World) {
			if has(w, fleet.ConditionDuplicateIdentity) {
				w.Error("the condition stays")
			}
		},
	})
}

// A request that waits to be accepted is named on the Cluster until it is granted. Then
// the user's answer is removed from the Cluster.
func TestRegistrationWaiting(t *testing.T) {
	for name, granted := range map[string]bool{"Waits": false, "Granted": true} {
		t.Run(name, func(t *testing.T) {
			looptest.Run(t, looptest.Loop{
				Start: start(),
				Given: func(w *looptest.World) {
					given(w)
					if granted {
						looptest.Change(w, "ws", "site", func(c *fleet.Cluster) {
							c.Annotations = map[string]string{fleet.AnnotationAcceptRegistration: "one"}
						})
					}
				},
				When: func(w *looptest.World) {
					looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "one"}})
					looptest.Change(w, "ws", "one", func(r *fleet.ClusterRegistration) {
						r.Status.ClusterName, r.Status.Granted = "site", granted
					})
				},
				Then: func(w *looptest.World) {
					if got := has(w, fleet.ConditionRegistrationWaiting); got == granted {
						w.Errorf("granted: %v, and the Cluster says that a request waits: %v", granted, got)
					}
					c := looptest.Read[*fleet.Cluster](w, "ws", "site")
					if got := c.Annotations[fleet.AnnotationAcceptRegistration]; got != "" {
						w.Errorf("the answer %q stays", got)
					}
				},
			})
		})
	}
}
