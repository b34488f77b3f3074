package workspace

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

func space(w *looptest.World) *management.FleetWorkspace {
	return looptest.Read[*management.FleetWorkspace](w, "", team)
}

func home(w *looptest.World) *corev1.Namespace { return looptest.Read[*corev1.Namespace](w, "", team) }

func makeCluster(w *looptest.World) {
	looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "by-hand"}})
}

func givenSpace(w *looptest.World) {
	install(w)
	makeSpace(w, team)
}

func removeSpace(w *looptest.World) { looptest.Remove[*management.FleetWorkspace](w, "", team) }

// A workspace gets a finalizer and a namespace.
func TestWorkspaceMade(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(plan.Standalone), Given: func(w *looptest.World) { install(w) },
		When: func(w *looptest.World) {
			looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team, Labels: map[string]string{"tier": "1"}}})
		},
		Then: func(w *looptest.World) {
			if ns := home(w); ns == nil || ns.Labels["tier"] != "1" || ns.Annotations[plan.AnnotationOrigin] != plan.OriginCreated {
				w.Errorf("got namespace %+v", ns)
			}
			if !slices.Contains(space(w).Finalizers, plan.Finalizer) {
				w.Error("the workspace has no finalizer")
			}
		},
	})
}

// A workspace without a finalizer has no namespace: it would leave it behind.
func TestWorkspaceWithoutFinalizer(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: func(w *looptest.World) { install(w) },
		When: func(w *looptest.World) {
			forbidden := w.Server.Forbid(kubetest.Always, kubetest.Match{Verb: "patch", Resource: "fleetworkspaces", Agent: "process"})
			looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team}})
			w.Pass(time.Minute)
			if home(w) != nil {
				w.Error("the namespace was made before the finalizer")
			}
			forbidden.Lift()
		},
		Then: func(w *looptest.World) {
			if home(w) == nil {
				w.Error("there is no namespace")
			}
		},
		Settles: 10 * time.Minute,
	})
}

// A namespace that was there before the workspace, and that the manager did not hear of
// yet, is not given to it.
func TestWorkspaceOfUnseenNamespace(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: func(w *looptest.World) { install(w) },
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			late(w, namespaces, 20*time.Second, func() {
				w.Server.MakeNamespace(team)
				looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team, Labels: map[string]string{"tier": "1"}}})
			})
		},
		Then: func(w *looptest.World) {
			if ns := home(w); ns.Labels["tier"] != "" || ns.Annotations[plan.AnnotationOrigin] != "" {
				w.Errorf("the workspace got the foreign namespace: %v, %v", ns.Labels, ns.Annotations)
			}
		},
	})
}

// A namespace that was there before the workspace is not given to it.
func TestWorkspaceOfForeignNamespace(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			w.Server.MakeNamespace(team)
		},
		When: func(w *looptest.World) {
			looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team}})
		},
		Then: func(w *looptest.World) {
			if len(home(w).Annotations) > 0 || space(w).Annotations[plan.AnnotationRefused] == "" {
				w.Errorf("want it refused, got %v, %v", home(w).Annotations, space(w).Annotations)
			}
		},
	})
}

// A deleted workspace goes with its namespace.
func TestWorkspaceDeleted(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenSpace, When: removeSpace,
		Then: func(w *looptest.World) {
			if space(w) != nil || home(w) != nil {
				w.Errorf("still there: %v, %v", space(w), home(w))
			}
		},
	})
}

// A deleted workspace that holds a cluster stays, and says why, until that is gone.
func TestWorkspaceHeld(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			givenSpace(w)
			makeCluster(w)
		},
		When: func(w *looptest.World) {
			removeSpace(w)
			w.Pass(10 * time.Minute)
			if space(w).Annotations[plan.AnnotationRefused] == "" || home(w).DeletionTimestamp != nil {
				w.Fatal("want it held")
			}
			looptest.Remove[*fleet.Cluster](w, team, "by-hand")
		},
		Then: func(w *looptest.World) {
			if space(w) != nil || home(w) != nil {
				w.Errorf("still there: %v, %v", space(w), home(w))
			}
		},
	})
}

// While the clusters of the Cluster API cannot be listed, there may be some: the workspace
// keeps its finalizer and is not deleted, whether Fleet or Rancher makes the namespaces.
func TestWorkspaceUnlisted(t *testing.T) {
	for mode, deleted := range map[plan.Mode]bool{plan.Standalone: true, plan.WithRancher: false} {
		t.Run(string(mode), func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(mode),
				Given: func(w *looptest.World) {
					install(w, kindClusterAPI)
					makeSpace(w, team)
				},
				When: func(w *looptest.World) {
					if deleted {
						removeSpace(w)
					}
				},
				Then: func(w *looptest.World) {
					if s := space(w); s == nil || !slices.Contains(s.Finalizers, plan.Finalizer) || home(w).DeletionTimestamp != nil {
						w.Errorf("the workspace is gone, or may go: %+v", s)
					}
				},
			})
		})
	}
}

// While Rancher makes the namespaces, a workspace has the finalizer as long as it holds
// clusters.
func TestWorkspaceGuarded(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.WithRancher),
		Given: func(w *looptest.World) {
			install(w)
			w.Server.MakeNamespace(team)
			looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team}})
		},
		When: func(w *looptest.World) {
			makeCluster(w)
			w.Pass(time.Minute)
			if !slices.Contains(space(w).Finalizers, plan.Finalizer) {
				w.Fatal("a workspace with a cluster is not guarded")
			}
			looptest.Remove[*fleet.Cluster](w, team, "by-hand")
		},
		Then: func(w *looptest.World) {
			if len(space(w).Finalizers) > 0 {
				w.Errorf("got finalizers %v", space(w).Finalizers)
			}
		},
	})
}

// A namespace that a user makes under the name of one that goes is not deleted in its
// place.
func TestNamespaceMadeAgain(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenSpace,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			late(w, namespaces, 20*time.Second, func() {
				looptest.Remove[*corev1.Namespace](w, "", team)
				w.Pass(5 * time.Second)
				w.Server.MakeNamespace(team)
				removeSpace(w)
			})
		},
		Then: func(w *looptest.World) {
			if ns := home(w); ns == nil || ns.DeletionTimestamp != nil {
				w.Error("the namespace of the user is gone")
			}
			if space(w) != nil {
				w.Error("the workspace is still there")
			}
		},
	})
}

// An empty namespace that was made for a workspace goes some time after it. One with a
// Bundle or a GitRepo gets a workspace.
func TestNamespaceWithoutWorkspace(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(w *looptest.World)
		stays bool
	}{
		"Empty": {func(*looptest.World) {}, false},
		"Bundle": {func(w *looptest.World) {
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "one"}})
		}, true},
		"GitRepo": {func(w *looptest.World) {
			looptest.Make(w, &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "one"}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(plan.Standalone),
				Given: func(w *looptest.World) {
					install(w)
					makeNamespace(w, team)
					c.make(w)
				},
				When: func(w *looptest.World) {
					w.Pass(9 * time.Minute)
					if home(w) == nil {
						w.Fatal("the namespace has gone at once")
					}
					w.Pass(5 * time.Minute)
				},
				Then: func(w *looptest.World) {
					if (home(w) != nil) != c.stays || (space(w) != nil) != c.stays {
						w.Errorf("want them to stay: %v; got %v, %v", c.stays, home(w), space(w))
					}
				},
			})
		})
	}
}

// A workspace that the cache lacks although it is there keeps its namespace.
func TestWorkspaceUnseen(t *testing.T) {
	var was types.UID // the manager would make another one once it sees the workspace
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeNamespace(w, team)
		},
		When: func(w *looptest.World) {
			late(w, workspaces, 15*time.Minute, func() {
				was = home(w).UID
				looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: team, Finalizers: []string{plan.Finalizer}}})
			})
		},
		Then: func(w *looptest.World) {
			if ns := home(w); ns == nil || ns.UID != was {
				w.Error("the namespace is gone")
			}
		},
	})
}
