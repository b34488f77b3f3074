package noloss

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// Nothing is lost by what only looks like an order; the same goes by an order.
func TestNoLoss(t *testing.T) {
	hub := harness.NewHub(t, harness.Memory(t, "noloss"))
	for name, f := range map[string]func(*testing.T, *harness.Hub){
		"TwoAgents": twoAgents, "ManyRemovals": manyRemovals, "RealControlPlane": onRealControlPlane,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, hub)
		})
	}
	for _, table := range []map[string]scenario{absences, orders, shared, wayBack} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				table[name].report(t, &site{harness.NewSite(t, hub, hub, strings.ToLower(name))}, func() {})
			})
		}
	}
}

// onRealControlPlane runs what an API server in memory does not do: Helm validates our
// charts by the API server's schemas, and etcd is restored from a backup.
func onRealControlPlane(t *testing.T, hub *harness.Hub) {
	own := harness.NewHub(t, harness.Cluster(t, "restored"))
	t.Run("Charts", func(t *testing.T) { chartsSideBySide(t, own) })
	t.Run("Restored", func(t *testing.T) { restored(t, hub, own) })
}
