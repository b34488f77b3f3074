package fleetstate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// The number of deployments of a workspace is what a count says.
func TestDeploymentsOf(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 29))
		tab, _ := newTable()
		for version := range 80 {
			b, c := fmt.Sprint("b", rnd.IntN(3)), fmt.Sprint("c", rnd.IntN(4))
			bd := deploymentOf(b, c, "", false, version+1)
			if rnd.IntN(3) == 0 {
				bd.Labels[fleet.LabelBundleNamespace] = "other"
			}
			switch rnd.IntN(5) {
			case 0:
				tab.RemoveDeployment(bd)
			case 1:
				tab.RemoveBundle(key(b))
			case 2:
				tab.SetPlan(key(b), planFor(c))
			default:
				tab.SetDeployment(bd)
			}
			want := map[string]int{}
			for k, row := range tab.bundles {
				for _, placement := range row.cells {
					if placement.bd != nil {
						want[k.Namespace]++
					}
				}
			}
			for _, ns := range []string{workspaceName, "other"} {
				if got := tab.DeploymentsOf(ns); got != want[ns] {
					t.Fatalf("seed %d, step %d: %s has %d, want %d", seed, version, ns, got, want[ns])
				}
			}
		}
	}
}

func TestLost(t *testing.T) {
	volume := withdrawal.DataObject{Kind: "PersistentVolumeClaim", Namespace: "pos", Name: "data", Cluster: workspaceName + "/c1"}
	with := func(bd *fleet.BundleDeployment) *fleet.BundleDeployment {
		bd.Status.Resources = []fleet.BundleDeploymentResource{{Kind: volume.Kind, Namespace: volume.Namespace, Name: volume.Name}}
		return bd
	}
	marked := func(bd *fleet.BundleDeployment) *fleet.BundleDeployment {
		bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "b7"}
		return bd
	}
	cases := map[string]struct {
		why       string
		other     *fleet.BundleDeployment // of Bundle new, wanted on c1
		leaves    bool                    // new leaves too
		foreign   bool                    // new is of another repository
		lost      int
		undecided bool
	}{
		"Unclaimed":       {why: "nothing else is there", lost: 1},
		"Claimed":         {why: "the agent spares it", other: with(deploymentOf("new", "c1", "s-1:x", true, 9))},
		"NotHere":         {why: "it is another one on another cluster", other: with(deploymentOf("new", "c2", "s-1:x", true, 9)), lost: 1},
		"Without":         {why: "it has other objects", other: deploymentOf("new", "c1", "s-1:x", true, 9), lost: 1},
		"OnItsWay":        {why: "what it has will be known in a moment", other: deploymentOf("new", "c1", "", false, 9), lost: 1, undecided: true},
		"Foreign":         {why: "only what the same repository brings is waited for", other: deploymentOf("new", "c1", "", false, 9), foreign: true, lost: 1},
		"LeavesToo":       {why: "both go", other: with(deploymentOf("new", "c1", "s-1:x", true, 9)), leaves: true, lost: 1},
		"OrderedOnItsWay": {why: "it does not arrive any more", other: marked(deploymentOf("new", "c1", "", false, 9)), lost: 1},
		"Ordered":         {why: "it is about to go", other: marked(with(deploymentOf("new", "c1", "s-1:x", true, 9))), lost: 1},
	}
	whole := withdrawal.DataObject{Kind: "Namespace", Name: "default", Cluster: workspaceName + "/c1", Whole: true}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tab, clock := newTable()
			for i, cluster := range []string{"c1", "c2"} {
				tab.SetCluster(clusterOf(cluster, i+1))
			}
			tab.SetCluster(signed(50, clock.Now()))
			repo := "r"
			if c.foreign {
				repo = "q"
			}
			tab.SetBundle(bundleOf("old", "r", 3))
			tab.SetBundle(bundleOf("new", repo, 4))
			tab.SetDeployment(with(deploymentOf("old", "c1", "s-1:x", true, 8)))
			if c.other != nil {
				tab.SetDeployment(c.other)
			}
			tab.SetPlan(key("old"), planFor("c1"))
			tab.SetPlan(key("new"), planFor("c1", "c2"))
			lost, undecided := tab.LostObjects(key("c1"), key("r"), []withdrawal.DataObject{volume}, func(b kube.Key) bool {
				return b.Name == "old" || c.leaves
			})
			if diff := cmp.Diff(c.lost, len(lost)); diff != "" || undecided != c.undecided {
				t.Errorf("%s: %d lost, undecided %v", c.why, len(lost), undecided)
			}
			lost, _ = tab.LostObjects(key("c1"), key("r"), []withdrawal.DataObject{whole}, func(b kube.Key) bool { return b.Name == "old" || c.leaves })
			alone := c.other == nil || c.leaves || c.other.Namespace != "c-c1" || orderOf(c.other) != ""
			if (len(lost) > 0) != alone {
				t.Errorf("the namespace is deleted when no deployment is in it any more: %v", lost)
			}
		})
	}
}
