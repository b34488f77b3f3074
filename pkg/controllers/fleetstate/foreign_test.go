package fleetstate

import "testing"

// The deployments of a Bundle that another manager owns count for clusters and
// repositories, and this manager does not report the Bundle itself.
func TestForeign(t *testing.T) {
	tab, _ := newTable()
	tab.SetCluster(clusterOf("c1", 1))
	tab.SetBundle(bundleOf("theirs", "repo", 1))
	tab.SetBundle(bundleOf("ours", "", 1))
	tab.SetDeployment(deploymentOf("theirs", "c1", "id", true, 1))
	p := planFor("c1")
	p.Foreign = true
	tab.SetPlan(key("theirs"), p)
	tab.SetPlan(key("ours"), Plan{Generation: 1, Complete: true})
	if _, _, _, ok := tab.BundleFacts(key("theirs")); ok {
		t.Error("another manager's Bundle would be reported")
	}
	if _, _, _, ok := tab.BundleFacts(key("ours")); !ok {
		t.Error("our own Bundle is not reported")
	}
	if _, view, ok := tab.ClusterFacts(key("c1")); !ok || len(view.Deployments) != 1 || view.Withdrawing != 0 {
		t.Errorf("the cluster does not count it: %+v", view)
	}
}
