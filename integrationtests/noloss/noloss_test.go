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
	hub := harness.NewHub(t, harness.Cluster(t, "noloss"))
	for name, f := range map[string]func(*testing.T, *harness.Hub){
		"TwoAgents": twoAgents, "Restored": restored, "ManyRemovals": manyRemovals,
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
