package workspace

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

func managed(w *looptest.World) *management.Cluster {
	return looptest.Read[*management.Cluster](w, "", generated)
}

// kept makes a provisioning Cluster that a finalizer keeps while it is deleted.
func kept(p *provisioning.Cluster) { p.Finalizers = []string{"example.com/kept"} }

func givenKept(w *looptest.World) {
	install(w)
	makeSpace(w, team)
	makeManagement(w, generated, team, originOf(team, "site"))
	makeProvisioning(w, team, "site", generated, kept)
}

// deleteKept deletes the provisioning Cluster, which is gone some time later.
func deleteKept(w *looptest.World) {
	looptest.Remove[*provisioning.Cluster](w, team, "site")
	w.Pass(30 * time.Second)
	letGo(w)
}

func letGo(w *looptest.World) {
	looptest.Change(w, team, "site", func(p *provisioning.Cluster) { p.Finalizers = nil })
}

// The management Cluster goes with its provisioning Cluster.
func TestManagementClusterGoes(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenKept, When: deleteKept,
		Then: func(w *looptest.World) {
			if managed(w) != nil {
				w.Error("the management Cluster is still there")
			}
		},
	})
}

// A provisioning Cluster that is not there although no user was seen to delete it may be
// about to be restored from a backup: its management Cluster stays for a while.
func TestProvisioningClusterLost(t *testing.T) {
	lost := func(then func(*looptest.World)) looptest.Loop {
		return looptest.Loop{
			Start: start(plan.Standalone), Given: givenPair,
			When: func(w *looptest.World) {
				w.Pass(5 * time.Minute)
				looptest.Remove[*provisioning.Cluster](w, team, "site")
				w.Pass(5 * time.Minute)
				if managed(w) == nil {
					w.Fatal("the management Cluster has gone at once")
				}
				then(w)
			},
		}
	}
	t.Run("ForGood", func(t *testing.T) {
		l := lost(func(w *looptest.World) { w.Pass(6 * time.Minute) })
		l.Then = func(w *looptest.World) {
			if managed(w) != nil {
				w.Error("the management Cluster is still there")
			}
		}
		looptest.Undisturbed(t, l)
	})
	t.Run("Restored", func(t *testing.T) {
		l := lost(func(w *looptest.World) {
			makeProvisioning(w, team, "site", generated, nil)
			w.Pass(20 * time.Minute)
		})
		l.Then = func(w *looptest.World) {
			if managed(w) == nil {
				w.Error("the management Cluster has gone")
			}
		}
		looptest.Undisturbed(t, l)
	})
}

// A provisioning Cluster that the cache lacks although it is there takes nothing along.
func TestProvisioningClusterUnseen(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone),
		Given: func(w *looptest.World) {
			install(w)
			makeSpace(w, team)
			makeManagement(w, generated, team, originOf(team, "site"))
		},
		When: func(w *looptest.World) {
			late(w, provisioningClusters, 15*time.Minute, func() { makeProvisioning(w, team, "site", generated, nil) })
		},
		Then: func(w *looptest.World) {
			if managed(w) == nil {
				w.Error("the management Cluster has gone")
			}
		},
	})
}

// A management Cluster that was made again is not deleted in the place of the former one.
func TestManagementClusterMadeAgain(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(plan.Standalone), Given: givenKept,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			late(w, managementClusters, 20*time.Second, func() {
				looptest.Remove[*management.Cluster](w, "", generated)
				looptest.Make(w, &management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: generated}})
				looptest.Remove[*provisioning.Cluster](w, team, "site")
				w.Pass(10 * time.Second)
				letGo(w)
			})
		},
		Then: func(w *looptest.World) {
			if managed(w) == nil {
				w.Error("the new management Cluster is gone")
			}
		},
	})
}
