package drift

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.StopSharedHub()
	harness.RemoveProgram()
	os.Exit(code)
}

// sampled are the pieces of the corpus that are lived through with a dying agent
// in a usual run, each with where it dies.
var sampled = map[string]harness.Point{
	"defaults": {Write: 1, After: true},
	"webhooks": {Write: 0},
	"things":   {Write: 2},
}

// TestKilled checks that nothing false is called drift, and that real drift is
// found and corrected, if the agent, a process of its own, is killed at its
// writes: while it deploys, while others write, while it reports drift and while
// it corrects. A usual run takes a sample; with FLEET_TEST_SOAK every piece is
// killed at every write, before and after, until a run ends without a kill.
func TestKilled(t *testing.T) {
	hub := harness.SharedHub(t)
	if soak() {
		for _, p := range pieces {
			if p.name != "kinds" { // goes with things
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					everyWrite(t, hub, p)
				})
			}
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(sampled)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if newLife(t, hub, byName(name), "", sampled[name]).live() == 0 {
				t.Errorf("no agent was killed: the agent writes less than %d times", sampled[name].Write+1)
			}
		})
	}
}

func byName(name string) piece {
	return pieces[slices.IndexFunc(pieces, func(p piece) bool { return p.name == name })]
}

// everyWrite lives through a piece for every write.
func everyWrite(t *testing.T, hub *harness.Hub, p piece) {
	for k, died := 0, 1; died > 0 && !t.Failed(); k++ {
		died = 0
		for _, after := range []bool{false, true} {
			at := harness.Point{Write: k, After: after}
			t.Run(at.String(), func(t *testing.T) {
				died += newLife(t, hub, p, fmt.Sprintf("-%d-%t", k, after), at).live()
			})
		}
	}
}

// A life is that of one piece on an agent that is killed once in each of its times.
type life struct {
	*world
	agentProcess *harness.AgentProcess
	pieces       []piece
	at           harness.Point
}

func newLife(t *testing.T, hub *harness.Hub, p piece, suffix string, at harness.Point) *life {
	t.Helper()
	v := harness.NewAgentProcess(t, hub, p.name+suffix)
	v.Reborn, v.CrashProxy.Ignore = true, harness.Write.HeartbeatOfLife
	l := &life{world: newWorld(v.Site, "corpus-"+p.name+suffix), agentProcess: v, pieces: []piece{p}, at: at}
	if p.name == "things" {
		l.pieces = []piece{byName("kinds"), p}
	}
	return l
}

// live reports how often the agent had to die.
func (l *life) live() int {
	l.Start()
	died := 0
	for _, time := range []func(){l.deploys, l.plays, l.reports, l.corrects} {
		l.Until("the agent that dies has died", func() bool { return l.agentProcess.CrashProxy.Next(&l.at) })
		before := l.agentProcess.Process()
		if time(); l.agentProcess.Process() != before {
			died++
		}
	}
	l.Until("the last one lives", func() bool { return l.agentProcess.CrashProxy.Next(nil) })
	return died
}

func (l *life) deploys() {
	for _, p := range l.pieces {
		text := l.text(p)
		if p.first != nil {
			text = p.first(text)
		}
		p.orderText(l.world, fleet.BundleDeploymentOptions{}, text)
		l.Until(p.name+" is deployed", func() bool {
			return condition.IsTrue(l.Deployment(p.name).Status.Conditions, fleet.ConditionInstalled)
		})
	}
}

// text is a piece of the corpus that can be applied again whenever its agent was
// killed: a claim that says volumeName "" and is bound meanwhile cannot, with no
// Helm.
func (l *life) text(p piece) string {
	l.Helper()
	return strings.Replace(l.file("corpus/"+p.name+".yaml"), "  volumeName: \"\"\n", "", 1)
}

func (l *life) plays() {
	for _, p := range l.pieces {
		p.play(l.world, l.Home(p.name))
		clean(l.world, "playing", p.barrier(l.world, "one"))
	}
}

func (l *life) reports() {
	var took times
	for _, p := range l.pieces {
		for _, e := range p.edits {
			e.drift(l.world, p.name, &took)
		}
	}
}

func (l *life) corrects() {
	for _, p := range l.pieces {
		p.orderText(l.world, on(fleet.CorrectDrift{}), l.text(p))
		putBack(l.world, p)
	}
}
