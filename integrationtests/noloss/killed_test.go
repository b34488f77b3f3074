package noloss

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// sampled are the tests that a usual run repeats with an agent that is killed,
// each with where.
var sampled = map[string]harness.Point{
	"RevivedInTheMiddle": {Write: 1, After: true},
	"Heir":               {Write: 2},
	"Renamed":            {Write: 3, After: true},
	"KeepResources":      {Write: 0, After: true},
}

// TestKilled checks that nothing is lost if the agent, a process of its own, is
// killed at any of its writes since there is something to lose, and that what is
// ordered goes all the same. A usual run takes a sample; with FLEET_TEST_SOAK
// every test runs for every write, before and after, until a run ends without a
// kill.
func TestKilled(t *testing.T) {
	hub := harness.NewHub(t, harness.Memory(t, "killed"))
	scenarios := maps.Clone(absences)
	maps.Copy(scenarios, orders)
	maps.Copy(scenarios, shared)
	soak := os.Getenv("FLEET_TEST_SOAK") != ""
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		at, ok := sampled[name]
		if !ok && !soak {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if soak {
				scenarios[name].killed(t, hub, name)
				return
			}
			if !scenarios[name].dying(t, hub, strings.ToLower(name), at) {
				t.Errorf("no agent was killed: the agent writes less than %d times", at.Write+1)
			}
		})
	}
}

// killed runs a test for every write of its agent.
func (st scenario) killed(t *testing.T, hub *harness.Hub, name string) {
	for k, alive := 0, 0; alive < 2 && !t.Failed(); k++ {
		alive = 0
		for _, after := range []bool{false, true} {
			at := harness.Point{Write: k, After: after}
			t.Run(at.String(), func(t *testing.T) {
				if !st.dying(t, hub, fmt.Sprintf("%s-%d-%t", strings.ToLower(name), k, after), at) {
					alive++
				}
			})
		}
	}
}

// dying runs a test with an agent that is killed once, and reports whether it
// was.
func (st scenario) dying(t *testing.T, hub *harness.Hub, name string, at harness.Point) (died bool) {
	v := harness.NewAgentProcess(t, hub, name)
	v.Reborn, v.CrashProxy.Ignore = true, harness.Write.HeartbeatOfLife
	st.report(t, &site{v.Site}, func() { v.CrashProxy.Arm(&at) })
	return v.Died()
}
