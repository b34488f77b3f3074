package workspace

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

func site(w *looptest.World) *fleet.Cluster { return looptest.Read[*fleet.Cluster](w, team, "site") }

// givenPair makes a cluster of Rancher that has its kubeconfig.
func givenPair(w *looptest.World) {
	install(w)
	makeSpace(w, team)
	makeManagement(w, generated, team, originOf(team, "site"))
	makeProvisioning(w, team, "site", generated, nil)
}

// A cluster of Rancher becomes one of Fleet's.
func TestClusterMapped(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeSpace(w, team)
			makeManagement(w, generated, team, originOf(team, "site"))
		},
		When: func(w *looptest.World) { makeProvisioning(w, team, "site", generated, nil) },
		Then: func(w *looptest.World) {
			c := site(w)
			if c == nil || c.Labels[fleet.LabelManagementCluster] != generated || c.Spec.KubeConfigSecret != kubeconfig {
				w.Errorf("want it mapped, got %+v", c)
			}
		},
	})
}

// A mapped Cluster that a user edits is put right, and what the user has added stays.
func TestClusterEdited(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenPair,
		When: func(w *looptest.World) {
			w.Pass(5 * time.Minute)
			looptest.Change(w, team, "site", func(c *fleet.Cluster) {
				c.Spec.KubeConfigSecret = "another"
				c.Labels["note"] = "mine"
			})
		},
		Then: func(w *looptest.World) {
			if c := site(w); c.Spec.KubeConfigSecret != kubeconfig || c.Labels["note"] != "mine" {
				w.Errorf("got %+v", c)
			}
		},
	})
}

// While the watch has not yet reported a write of the manager, other changes do not make
// it write the same again.
func TestClusterWrittenOnce(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenPair,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			before := len(w.Server.Writes())
			late(w, fleetClusters, time.Minute, func() {
				looptest.Change(w, "", generated, func(m *management.Cluster) { m.Labels = map[string]string{"tier": "1"} })
				w.Pass(time.Second)
				looptest.Change(w, team, "site", func(p *provisioning.Cluster) { p.Labels = map[string]string{"any": "1"} })
				w.Pass(time.Second)
			})
			n := 0
			for _, r := range w.Server.Writes()[before:] {
				if r.Kind.Group == fleet.Group && r.Resource == "clusters" && r.Subresource == "" {
					n++
				}
			}
			if n != 1 {
				w.Errorf("want the Cluster written once, got %d times", n)
			}
		},
		Then: func(w *looptest.World) {
			if c := site(w); c.Labels["tier"] != "1" {
				w.Errorf("got labels %v", c.Labels)
			}
		},
	})
}

// The Cluster of a provisioning Cluster that is deleted goes, and no other one.
func TestClusterUnmapped(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeSpace(w, team)
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: team, Name: "site", Annotations: map[string]string{plan.AnnotationMappedFrom: team + "/site"},
			}})
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "other"}})
		},
		Then: func(w *looptest.World) {
			if got := looptest.Names[*fleet.Cluster](w, team); !slices.Equal(got, []string{"other"}) {
				w.Errorf("want the other Cluster alone, got %v", got)
			}
		},
	})
}

// A Cluster that a user makes under the name of one that is unmapped is not deleted in its
// place.
func TestClusterMadeAgain(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeSpace(w, team)
			makeManagement(w, generated, team, nil)
			makeProvisioning(w, team, "site", generated, nil)
		},
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			late(w, fleetClusters, 20*time.Second, func() {
				looptest.Remove[*fleet.Cluster](w, team, "site")
				looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "site"}})
				looptest.Remove[*provisioning.Cluster](w, team, "site")
			})
		},
		Then: func(w *looptest.World) {
			if site(w) == nil {
				w.Error("the Cluster of the user is gone")
			}
		},
	})
}

// A Cluster that Rancher has mapped is left as it is, also while Rancher is away; in the
// mode standalone it is written.
func TestClusterOfRancher(t *testing.T) {
	for mode, written := range map[plan.Mode]bool{plan.Auto: false, plan.Standalone: true} {
		t.Run(string(mode), func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(mode),
				Given: func(w *looptest.World) {
					givenPair(w)
					looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
						Namespace: team, Name: "site", Annotations: map[string]string{fleet.AnnotationObjectSetID: "fleet-cluster"},
					}})
				},
				Then: func(w *looptest.World) {
					if c := site(w); (c.Spec.KubeConfigSecret != "") != written {
						w.Errorf("got %+v", c)
					}
				},
			})
		})
	}
}

// Rancher maps as long as it renews its lease. When it has not for a while, the manager
// does.
func TestRancherStops(t *testing.T) {
	lease := func(w *looptest.World) *coordinationv1.Lease {
		now, holds := metav1.NewMicroTime(time.Now()), int32(45)
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: rancherLease.Namespace, Name: rancherLease.Name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &holds},
		}
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Auto),
		Given: func(w *looptest.World) {
			givenPair(w)
			looptest.Make(w, lease(w))
		},
		When: func(w *looptest.World) {
			for range 20 {
				w.Pass(30 * time.Second)
				if site(w) != nil {
					w.Fatal("the manager maps while Rancher does")
				}
				looptest.Change(w, rancherLease.Namespace, rancherLease.Name, func(l *coordinationv1.Lease) { l.Spec = lease(w).Spec })
			}
			w.Pass(10 * time.Minute)
		},
		Then: func(w *looptest.World) {
			if site(w) == nil {
				w.Error("the manager does not map although Rancher has stopped")
			}
		},
	})
}

// A management Cluster without a workspace gets the one of the setting.
func TestClusterAssigned(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeSpace(w, team)
			looptest.Make(w, &management.Setting{ObjectMeta: metav1.ObjectMeta{Name: plan.SettingDefaultWorkspace}, Value: team})
		},
		When: func(w *looptest.World) { makeManagement(w, imported, "", nil) },
		Then: func(w *looptest.World) {
			m := looptest.Read[*management.Cluster](w, "", imported)
			p := looptest.Read[*provisioning.Cluster](w, team, imported)
			if m.Spec.FleetWorkspaceName != team || p == nil || p.Annotations[plan.AnnotationMappedFrom] != imported {
				w.Errorf("want it assigned, with a provisioning Cluster, got %+v, %+v", m.Spec, p)
			}
		},
	})
}

// givenMoving makes a cluster that has moved from the workspace "before", whose
// provisioning Cluster is still there, and one of that name which a user has made.
func givenMoving(w *looptest.World) {
	install(w)
	for _, name := range []string{"before", "third", team} {
		makeSpace(w, name)
	}
	mark := func(p *provisioning.Cluster) { p.Annotations = map[string]string{plan.AnnotationMappedFrom: imported} }
	makeProvisioning(w, "before", imported, imported, mark)
	looptest.Make(w, &provisioning.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "third", Name: imported}})
	makeManagement(w, imported, team, nil)
}

// halves are the workspaces in which the cluster has a provisioning Cluster.
func halves(w *looptest.World) []string {
	var out []string
	for _, name := range []string{"before", team, "third"} {
		if looptest.Read[*provisioning.Cluster](w, name, imported) != nil {
			out = append(out, name)
		}
	}
	return out
}

// What a cluster has in its former workspace stays until it has its Fleet Cluster in the
// new one.
func TestClusterMoves(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenMoving,
		Then: func(w *looptest.World) {
			if got := halves(w); !slices.Equal(got, []string{"before", team, "third"}) {
				w.Errorf("got %v", got)
			}
		},
	})
}

// When a cluster has moved, its provisioning Cluster in the former workspace goes. That of
// a user stays.
func TestClusterHasMoved(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			givenMoving(w)
			makeProvisioning(w, team, imported, imported, nil)
		},
		Then: func(w *looptest.World) {
			if got := halves(w); !slices.Equal(got, []string{team, "third"}) {
				w.Errorf("got %v", got)
			}
			if looptest.Read[*fleet.Cluster](w, team, imported) == nil {
				w.Error("it has no Fleet Cluster")
			}
		},
	})
}
