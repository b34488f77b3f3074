package fleetstate

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A Cluster of the reference gets its place when its namespace names it, whichever the
// table sees first, and loses it when the namespace names another.
func TestPlaceFollowsNamespace(t *testing.T) {
	ns := naming.ClusterNamespace(workspaceName, "c1")
	c := clusterOf("c1", 1)
	c.Annotations, c.Status.Namespace = nil, ns
	placed := func(tab *State) string {
		got, _ := tab.Candidate(key("c1"))
		if (got.Place.Namespace == "") != (got.NoPlace != "") {
			t.Errorf("place %q and reason %q", got.Place.Namespace, got.NoPlace)
		}
		return got.Place.Namespace
	}
	for name, namespaceFirst := range map[string]bool{"NamespaceFirst": true, "ClusterFirst": false} {
		t.Run(name, func(t *testing.T) {
			tab, _ := newTable()
			tab.FollowNamespaces()
			if namespaceFirst {
				tab.SetOwner(ns, key("c1").String())
			}
			tab.SetCluster(c)
			if !namespaceFirst && len(tab.SetOwner(ns, key("c1").String())) != 1 {
				t.Error("no Bundle would be planned again")
			}
			if got := placed(tab); got != ns {
				t.Errorf("place %q, want %q", got, ns)
			}
			for _, owner := range []string{key("c2").String(), ""} {
				if len(tab.SetOwner(ns, owner)) != 1 || placed(tab) != "" {
					t.Errorf("namespace names %q: place %q", owner, placed(tab))
				}
			}
		})
	}
}

// A deployment that cannot be written is not counted as Ready.
func TestBarredIsOutOfSync(t *testing.T) {
	tab, _ := newTable()
	tab.SetBundle(bundleOf("b", "repo", 1))
	tab.SetCluster(clusterOf("c1", 2))
	tab.SetDeployment(deploymentOf("b", "c1", "s-1:x", true, 3))
	p := planFor("c1")
	p.Wants[key("c1")] = Desired{Held: "why", Barred: true}
	tab.SetPlan(key("b"), p)
	tab.Settle()
	_, facts, _, _ := tab.BundleFacts(key("b"))
	if d := facts.Deployments[0]; d.State != fleet.OutOfSync || d.Message != "why" {
		t.Errorf("got %s, %q", d.State, d.Message)
	}
}
