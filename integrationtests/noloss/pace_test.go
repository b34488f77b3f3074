package noloss

import (
	"fmt"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// removals is how many deployments are withdrawn at once.
const removals = 60

// Many removals at once are carried out a few at a time: a new version of something
// else does not wait for them.
func manyRemovals(t *testing.T, hub *harness.Hub) {
	s := &site{harness.NewSite(t, hub, hub, "many")}
	name := func(i int) string { return fmt.Sprintf("many%02d", i) }
	at := fleet.BundleDeploymentOptions{DefaultNamespace: s.Home("shared")}
	for i := range removals {
		s.Order(name(i), harness.Order{Files: []string{"a.yaml", harness.ConfigMap(name(i), "x")}, Options: at})
	}
	s.Start()
	s.app()
	for i := range removals {
		s.State(name(i), fleet.Ready)
	}
	start := time.Now()
	for i := range removals {
		s.Withdraw(name(i), "o1")
	}
	s.Order(app, harness.Order{Files: files("two")})
	s.State(app, fleet.Ready)
	took, left := time.Since(start), len(s.objects())-2
	for i := range removals {
		s.Answered(name(i), "o1")
	}
	t.Logf("a new version among %d removals: %v, with %d left to remove; all removed after %v", removals, took, left, time.Since(start))
	if left == 0 {
		t.Error("the new version came last")
	}
	if got := len(s.objects()); got != 2 {
		t.Errorf("%d objects are left, want those of the one that was not withdrawn", got)
	}
}
