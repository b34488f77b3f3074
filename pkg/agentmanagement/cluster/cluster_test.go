package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/terminating"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// nothingMoves answers that no Cluster moves to another workspace.
type nothingMoves struct{}

func (nothingMoves) MustStay(context.Context, *fleet.Cluster) (bool, kube.Result, error) {
	return false, kube.Done, nil
}

// everythingMoves answers that every Cluster does, and waits for something.
type everythingMoves struct{}

func (everythingMoves) MustStay(context.Context, *fleet.Cluster) (bool, kube.Result, error) {
	return true, kube.Result{After: time.Minute}, nil
}

const lease = "lease"

// start returns what a process runs, with agents that check in every minute.
func start(m moves) func(*kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		var l *Loop
		intervals := heartbeat.New(time.Minute, p.Caches, p.Log, func(key kube.Key) { l.Enqueue(key) })
		l = New(Config{
			System: managertest.System, Installation: managertest.Installation, Lease: lease,
			Terminating: terminating.New(p.Client, time.Now), Moves: m, Mark: intervals.Mark, Now: time.Now,
		}, p.Client, p.Caches, p.Events, p.Log)
		return append(intervals.Runnables(), l.Runnables()...)
	})
}

func given(w *looptest.World) { w.Server.MakeNamespace("ws") }

func makeCluster(w *looptest.World) {
	looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}})
}

// givenProcessed makes a Cluster that has all it needs.
func givenProcessed(w *looptest.World) {
	given(w)
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}}
	name := registration.NamespaceOf(c, nil)
	looptest.Make(w, registration.NewNamespace(c, name, managertest.System))
	looptest.Make(w, registration.MarkCluster(c, name, managertest.Installation.Mark()))
	looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Status.Namespace = name })
}

func site(w *looptest.World) *fleet.Cluster { return looptest.Read[*fleet.Cluster](w, "ws", "site") }

// own are the namespaces that were made for Clusters.
func own(w *looptest.World) []string {
	return slices.DeleteFunc(looptest.Names[*corev1.Namespace](w, ""), func(name string) bool {
		return slices.Contains([]string{"ws", "taken", "other", metav1.NamespaceDefault, metav1.NamespaceSystem}, name)
	})
}

// A Cluster gets one namespace, the manager's mark, the finalizer and the interval of its
// agent.
func TestCluster(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(nothingMoves{}), Given: given, When: makeCluster,
		Then: func(w *looptest.World) {
			c := site(w)
			name := registration.NamespaceOf(c, nil)
			if got := own(w); !slices.Equal(got, []string{name}) || c.Status.Namespace != name {
				w.Errorf("want namespace %s, got %v, and the status says %q", name, got, c.Status.Namespace)
			}
			if !slices.Contains(c.Finalizers, fleet.FinalizerCluster) || registration.OtherManager(c, managertest.Installation.Mark()) != "" {
				w.Errorf("want the finalizer and the mark, got %v, %v", c.Finalizers, c.Annotations)
			}
			if got := c.Annotations[fleet.AnnotationCheckInInterval]; got == "" {
				w.Error("its agent is not given an interval")
			}
			if !condition.IsTrue(c.Status.Conditions, fleet.ConditionProcessed) {
				w.Errorf("want it processed, got %v", c.Status.Conditions)
			}
		},
	})
}

// A deleted Cluster goes with its namespace and its granted requests. One that waits to be
// accepted stays.
func TestClusterDeleted(t *testing.T) {
	request := func(w *looptest.World, name string, granted bool) {
		looptest.Make(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}})
		looptest.Change(w, "ws", name, func(r *fleet.ClusterRegistration) { r.Status.ClusterName, r.Status.Granted = "site", granted })
	}
	looptest.Run(t, looptest.Loop{
		Start: start(nothingMoves{}),
		Given: func(w *looptest.World) {
			givenProcessed(w)
			request(w, "granted", true)
			request(w, "waiting", false)
		},
		When: func(w *looptest.World) { looptest.Remove[*fleet.Cluster](w, "ws", "site") },
		Then: func(w *looptest.World) {
			if site(w) != nil || len(own(w)) > 0 {
				w.Errorf("the Cluster, or a namespace of it, is still there: %v", own(w))
			}
			if got := looptest.Names[*fleet.ClusterRegistration](w, "ws"); !slices.Equal(got, []string{"waiting"}) {
				w.Errorf("want the waiting request alone, got %v", got)
			}
		},
	})
}

// A deleted Cluster that moves stays, with its namespace.
func TestClusterDeletedAndMoves(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(everythingMoves{}), Given: givenProcessed,
		When: func(w *looptest.World) { looptest.Remove[*fleet.Cluster](w, "ws", "site") },
		Then: func(w *looptest.World) {
			if site(w) == nil || len(own(w)) != 1 {
				w.Errorf("the Cluster, or its namespace, is gone: %v", own(w))
			}
		},
	})
}

// A protected Cluster that is deleted stays until a person approves.
func TestClusterProtected(t *testing.T) {
	for name, approved := range map[string]bool{"Held": false, "Approved": true} {
		run := looptest.Run
		if !approved {
			run = looptest.Undisturbed
		}
		t.Run(name, func(t *testing.T) {
			run(t, looptest.Loop{
				Start: start(nothingMoves{}),
				Given: func(w *looptest.World) {
					givenProcessed(w)
					looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationProtect] = registration.True })
				},
				When: func(w *looptest.World) {
					looptest.Remove[*fleet.Cluster](w, "ws", "site")
					if approved {
						v := withdrawal.DecideProtected(withdrawal.Removal{
							Unit: "cluster", Total: 1, Deleted: site(w).UID, Items: []withdrawal.Item{{Name: "site", UID: site(w).UID}},
						}, "")
						looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationApproveDeletion] = v.Hash })
					}
				},
				Then: func(w *looptest.World) {
					switch c := site(w); {
					case approved && c != nil:
						w.Errorf("want it gone, got %v", c.Annotations)
					case !approved && (c == nil || c.Annotations[fleet.AnnotationDeletionHeld] == "" || len(own(w)) != 1):
						w.Errorf("want it held, with its namespace, got %v", c)
					}
				},
			})
		})
	}
}

// A namespace of the name of a Cluster's that another owner has made is not touched, and
// the Cluster does not get it.
func TestClusterNamespaceTaken(t *testing.T) {
	taken := func(w *looptest.World) string {
		return registration.NamespaceOf(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}}, nil)
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(nothingMoves{}),
		Given: func(w *looptest.World) {
			given(w)
			w.Server.MakeNamespace(taken(w))
		},
		When: makeCluster,
		Then: func(w *looptest.World) {
			n := looptest.Read[*corev1.Namespace](w, "", taken(w))
			if len(n.Labels[fleet.LabelManaged])+len(n.Annotations) > 0 {
				w.Errorf("the namespace was changed: %v %v", n.Labels, n.Annotations)
			}
			processed := condition.Find(site(w).Status.Conditions, fleet.ConditionProcessed)
			if site(w).Status.Namespace != "" || processed == nil || processed.Reason != registration.ReasonNamespaceTaken {
				w.Errorf("want it refused as taken, got %+v", site(w).Status)
			}
		},
	})
}

// A Cluster that bears the mark of another manager is left alone while that is alive, and
// taken once it is not.
func TestClusterOfAnotherManager(t *testing.T) {
	for name, alive := range map[string]bool{"Alive": true, "Gone": false} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(nothingMoves{}), Settles: 5 * time.Minute,
				Given: func(w *looptest.World) {
					given(w)
					w.Server.MakeNamespace("other")
					other := registration.Installation{ID: "other"}
					looptest.Make(w, other.ConfigMap("other"))
					renewed, holder := metav1.NewMicroTime(time.Now().Add(24*time.Hour)), "process" // it is renewed in all that time
					if !alive {
						renewed = metav1.NewMicroTime(time.Now().Add(-time.Hour))
					}
					looptest.Make(w, &coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: lease},
						Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed, HolderIdentity: &holder},
					})
					c := registration.MarkCluster(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "site"}}, "cluster-of-other", other.Mark())
					looptest.Make(w, c)
				},
				Then: func(w *looptest.World) {
					if got := own(w); (len(got) == 0) != alive {
						w.Errorf("the other manager is alive: %v; namespaces %v", alive, got)
					}
				},
			})
		})
	}
}

// A Cluster whose workspace is being deleted stays while a Bundle is still to be uninstalled.
func TestClusterWaitsForBundles(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(nothingMoves{}),
		Given: func(w *looptest.World) {
			givenProcessed(w)
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "b", Finalizers: []string{fleet.FinalizerBundle}}})
		},
		When: func(w *looptest.World) { looptest.Remove[*corev1.Namespace](w, "", "ws") },
		Then: func(w *looptest.World) {
			if site(w) == nil || len(own(w)) != 1 {
				w.Errorf("the Cluster, or its namespace, is gone: %v", own(w))
			}
		},
	})
}

// A Cluster that names the namespace of another one gets one of its own.
func TestClusterNamesAnothersNamespace(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(nothingMoves{}),
		Given: func(w *looptest.World) {
			given(w)
			another := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "another"}}
			looptest.Make(w, registration.NewNamespace(another, "taken", managertest.System))
		},
		When: func(w *looptest.World) {
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ws", Name: "site", Annotations: map[string]string{registration.AnnotationDeploymentNamespace: "taken"},
			}})
		},
		Then: func(w *looptest.World) {
			if c := site(w); c.Status.Namespace == "" || c.Status.Namespace == "taken" {
				w.Errorf("want a namespace of its own, got %q", c.Status.Namespace)
			}
		},
	})
}
