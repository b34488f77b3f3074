package helm

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A bundle that holds an object twice may come from another manager. The agent
// writes nothing of it, neither first nor as an upgrade.
func TestDuplicateObject(t *testing.T) {
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	o := fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}
	once, twice := map[string]string{"a.yaml": renderMap}, map[string]string{"a.yaml": renderMap, "b.yaml": renderMap}
	if err := client.Install(t.Context(), rendered(o, twice)); reconcile.ReasonOf(err) != release.ReasonDuplicateObject || !reconcile.IsTerminal(err) || len(cluster.written) > 0 {
		t.Errorf("install: %v, written %v", err, cluster.written)
	}
	if err := client.Install(t.Context(), rendered(o, once)); err != nil {
		t.Fatal(err)
	}
	before := len(cluster.written)
	if err := client.Upgrade(t.Context(), rendered(o, twice)); reconcile.ReasonOf(err) != release.ReasonDuplicateObject || len(cluster.written) != before {
		t.Errorf("upgrade: %v, written %v", err, cluster.written[before:])
	}
}
