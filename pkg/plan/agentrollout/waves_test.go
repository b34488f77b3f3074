package agentrollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	v1  = Build{Image: "x/agent:v1.0.0", Shape: "s"}
	v2  = Build{Image: "x/agent:v2.0.0", Shape: "s"}
)

// at is an agent that has v1 and is well.
func at(key string, changes ...func(*Member)) Member {
	m := Member{
		Key: key, Has: v1, Version: "v1.0.0", Instance: "i1-" + key, Joined: true, Online: true, Applied: true,
		Next: now.Add(time.Minute),
	}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// moved is an agent that was given v2 some time ago.
func moved(key string, ago time.Duration, changes ...func(*Member)) Member {
	m := at(key)
	m.Has, m.Applied = v2, false
	m.Move = &Move{Image: v2.Image, From: v1.Image, At: now.Add(-ago), Version: "v1.0.0", Instance: m.Instance}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func well(m *Member)     { m.Applied, m.Version, m.Instance = true, "v2.0.0", "i2" }
func settled(m *Member)  { well(m); m.Move.Settled = true }
func offline(m *Member)  { m.Online = false }
func managers(m *Member) { m.First = true }
func custom(m *Member)   { m.Custom = true }
func nothing(m *Member)  { m.Has = Build{} }
func held(m *Member)     { m.Held = "the Cluster is paused" }
func tomorrow(m *Member) {
	m.Next = now.Add(24 * time.Hour)
}

// due is an agent that was moved while it was not expected before tomorrow.
func due(m *Member) {
	tomorrow(m)
	m.Move.Due = &m.Next
}

// many are agents with names of their own.
func many(n int, f func(key string) Member) []Member {
	var out []Member
	for i := range n {
		out = append(out, f(fmt.Sprintf("w/%03d", i)))
	}
	return out
}

// reported is a plan in words: the clusters that get an image, those that have gone
// well, and the phase.
func reported(p Plan) string {
	var lines []string
	for _, s := range p.Steps {
		mark := ""
		if s.Move == nil {
			mark = " (no move)"
		}
		lines = append(lines, s.Key+" gets "+s.Build.Image+mark)
	}
	for _, key := range p.Settle {
		lines = append(lines, key+" is well")
	}
	return strings.Join(append(lines, string(p.State.Phase)), "\n")
}

func TestDecide(t *testing.T) {
	back := Order{Image: v2.Image, To: v1.Image, By: "ana"}
	cases := map[string]struct {
		why     string
		members []Member
		target  Build
		order   Order
		want    string
	}{
		"Equal": {
			why:     "an upgrade of the manager that changes nothing about agents writes nothing",
			members: many(3, func(k string) Member { return at(k) }), target: v1,
			want: "Current",
		},
		"FirstIsTheManagersOwn": {
			why:     "the manager's own cluster is the first to show a fault",
			members: []Member{at("a/a"), at("fleet-local/local", managers)}, target: v2,
			want: "fleet-local/local gets x/agent:v2.0.0\nRolling",
		},
		"WaitsForTheWave": {
			why:     "the next wave begins when this one is well, and not before",
			members: []Member{moved("w/a", time.Minute), at("w/b")}, target: v2,
			want: "Rolling",
		},
		"DeployedButNotHeardOf": {
			why: "a Deployment that Kubernetes calls available says nothing about the agent in it",
			members: []Member{moved("w/a", time.Minute, func(m *Member) {
				m.Applied = true
			}), at("w/b")}, target: v2,
			want: "Rolling",
		},
		"WellBeginsTheNext": {
			why:     "the new version has checked in, its bundle is deployed, and nothing else is worse",
			members: []Member{moved("w/a", time.Minute, well), at("w/b"), at("w/c")}, target: v2,
			want: "w/b gets x/agent:v2.0.0\nw/a is well\nRolling",
		},
		"DeploymentsWorse": {
			why: "an agent that works but breaks what it deploys is not well",
			members: []Member{moved("w/a", time.Minute, well, func(m *Member) {
				m.NotReady = 1
			}), at("w/b")}, target: v2,
			want: "Rolling",
		},
		"DeploymentsAsBad": {
			why: "what was not Ready before holds no rollout up",
			members: []Member{moved("w/a", time.Minute, well, func(m *Member) {
				m.NotReady, m.Move.NotReady = 2, 2
			})}, target: v2,
			want: "w/a is well\nCurrent",
		},
		"Doubles": {
			why:     "each wave is as large as all that have gone well",
			members: append(many(4, func(k string) Member { return moved("a"+k, time.Hour, settled) }), many(9, func(k string) Member { return at(k) })...), target: v2,
			want: "w/000 gets x/agent:v2.0.0\nw/001 gets x/agent:v2.0.0\nw/002 gets x/agent:v2.0.0\nw/003 gets x/agent:v2.0.0\nRolling",
		},
		"OneFailureHaltsNothing": {
			why:     "one site that is broken for its own reasons does not hold a fleet up",
			members: []Member{moved("w/a", Timeout+time.Second), at("w/b")}, target: v2,
			want: "w/b gets x/agent:v2.0.0\nRolling",
		},
		"TwoFailuresHalt": {
			why:     "two are a pattern",
			members: []Member{moved("w/a", time.Hour), moved("w/b", time.Hour, offline), at("w/c")}, target: v2,
			want: "Halted",
		},
		"RecoveredGoesOn": {
			why:     "a halt ends by itself when the reason does",
			members: []Member{moved("w/a", time.Hour), moved("w/b", time.Hour, well), at("w/c")}, target: v2,
			want: "w/c gets x/agent:v2.0.0\nw/b is well\nRolling",
		},
		"LaterTroubleIsNot": {
			why: "an agent that has gone well and breaks later is no failure of the update",
			members: []Member{moved("w/a", time.Hour, settled, func(m *Member) {
				m.Online, m.NotReady, m.Applied = false, 9, false
			}), moved("w/b", time.Hour), at("w/c")}, target: v2,
			want: "w/c gets x/agent:v2.0.0\nRolling",
		},
		"OfflineWaits": {
			why:     "an agent that is away gets its turn when it is back, and no other waits for it",
			members: []Member{at("w/a", offline)}, target: v2,
			want: "Current",
		},
		"HeldWaits": {
			why:     "a paused Cluster changes nothing",
			members: []Member{at("w/a", held), moved("w/b", time.Hour, held)}, target: v2,
			want: "Current",
		},
		"SeldomIsLast": {
			why:     "no agent waits for one that checks in tomorrow, so others go first",
			members: []Member{at("w/a", tomorrow), at("w/b")}, target: v2,
			want: "w/b gets x/agent:v2.0.0\nRolling",
		},
		"SeldomIsNotWaitedFor": {
			why:     "it is not late before it was due",
			members: []Member{moved("w/a", time.Hour, due), moved("w/b", time.Hour, due), at("w/c")}, target: v2,
			want: "w/c gets x/agent:v2.0.0\nRolling",
		},
		"SeldomIsLateInTheEnd": {
			why: "and then it counts",
			members: []Member{moved("w/a", 48*time.Hour, func(m *Member) {
				m.Move.Due = new(now.Add(-time.Hour))
			}), moved("w/b", time.Hour), at("w/c")}, target: v2,
			want: "Halted",
		},
		"JustJoined": {
			why:     "a cluster that joins with the new agent gets its bundle at once, and is part of no wave",
			members: []Member{at("w/a", nothing, well0), moved("w/b", time.Minute)}, target: v2,
			want: "w/a gets x/agent:v2.0.0 (no move)\nRolling",
		},
		"NotThereYet": {
			why:     "an agent that is about to be installed gets the bundle that it is installed from",
			members: []Member{at("w/a", nothing, func(m *Member) { m.Joined, m.Online = false, false })}, target: v2,
			want: "w/a gets x/agent:v2.0.0 (no move)\nCurrent",
		},
		"TakenOver": {
			why:     "agents of an earlier manager, without bundles of this one, are not replaced all at once",
			members: many(3, func(k string) Member { return at(k, nothing) }), target: v2,
			want: "w/000 gets x/agent:v2.0.0\nRolling",
		},
		"OwnWishAtOnce": {
			why:     "what a Cluster asks for itself waits for no wave, and changes no image",
			members: []Member{at("w/a", custom), moved("w/b", time.Minute, custom)}, target: v2,
			want: "w/a gets x/agent:v1.0.0 (no move)\nw/b gets x/agent:v2.0.0 (no move)\nRolling",
		},
		"CalledBack": {
			why: "all that have the image return at once, and no other agent gets it",
			members: []Member{
				moved("w/a", time.Hour), moved("w/b", time.Hour, settled), at("w/c"), at("w/d", nothing, offline),
			}, target: v2, order: back,
			want: "w/a gets x/agent:v1.0.0\nw/b gets x/agent:v1.0.0\nw/d gets x/agent:v1.0.0 (no move)\nReturned",
		},
		"CalledBackToWhatItWas": {
			why: "each returns to the image that it had",
			members: []Member{moved("w/a", time.Hour, func(m *Member) {
				m.Move.From = "x/agent:v0.9.0"
			})}, target: v2, order: back,
			want: "w/a gets x/agent:v0.9.0\nReturned",
		},
		"OrderAboutAnotherImage": {
			why:     "an order ends with the version that it was about",
			members: []Member{at("w/a")}, target: v2, order: Order{Image: "x/agent:v1.5.0", To: v1.Image},
			want: "w/a gets x/agent:v2.0.0\nRolling",
		},
		"ShapeAlone": {
			why:     "settings of all agents change in waves too",
			members: []Member{at("w/a"), at("w/b")}, target: Build{Image: v1.Image, Shape: "other"},
			want: "w/a gets x/agent:v1.0.0\nRolling",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, reported(Decide(c.members, c.target, c.order, now))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// well0 is an agent that came with the new version.
func well0(m *Member) { m.Version = "v2.0.0" }

// TestStale checks how the manager recognises that a check-in is of the new
// agent.
func TestStale(t *testing.T) {
	cases := map[string]struct {
		why          string
		from, to     string
		before, now  string // versions
		sameInstance bool
		want         bool
	}{
		"Version":        {why: "tags are versions, and the agent says the new one", from: "a:v1.0.0", to: "a:v2.0.0", before: "v1.0.0", now: "v2.0.0"},
		"OldVersion":     {why: "another process of the old version is not the new agent", from: "a:v1.0.0", to: "a:v2.0.0", before: "v1.0.0", now: "v1.0.0", want: true},
		"Retagged":       {why: "where tags are not what agents say, another process has to do", from: "a:v1.0-corp1", to: "a:v1.0-corp2", before: "v1.0.0", now: "v1.0.0"},
		"RetaggedSame":   {why: "the same process cannot be the new one", from: "a:v1.0-corp1", to: "a:v1.0-corp2", before: "v1.0.0", now: "v1.0.0", sameInstance: true, want: true},
		"Digest":         {why: "a digest is no version", from: "a@sha256:1", to: "a@sha256:2", before: "v1", now: "v1"},
		"Port":           {why: "the port of a registry is no tag", from: "r:5000/a", to: "r:5000/a", before: "v1", now: "v1", sameInstance: true, want: true},
		"FromReference":  {why: "agents of the reference do not say their version", from: "rancher/fleet-agent:v0.16.0", to: "a:v2.0.0", before: "", now: "v2.0.0"},
		"StillReference": {why: "and it is still there", from: "rancher/fleet-agent:v0.16.0", to: "a:v2.0.0", before: "", now: "", sameInstance: true, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := Member{Version: c.now, Instance: "2", Move: &Move{From: c.from, Image: c.to, Version: c.before, Instance: "1"}}
			if c.sameInstance {
				m.Instance = "1"
			}
			if got := m.stale(); got != c.want {
				t.Errorf("%s: want %v, got %v", c.why, c.want, got)
			}
		})
	}
}

// TestDecideEnds plays a fleet of 100 that always goes well: every agent is moved
// once, in a handful of waves, and then nothing is done any more.
func TestDecideEnds(t *testing.T) {
	members := many(100, func(k string) Member { return at(k) })
	var waves []int
	for range 50 {
		plan := Decide(members, v2, Order{}, now)
		if len(plan.Steps) == 0 && len(plan.Settle) == 0 {
			break
		}
		waves = append(waves, len(plan.Steps))
		for _, s := range plan.Steps {
			for i := range members {
				if members[i].Key != s.Key {
					continue
				}
				if members[i].Has == v2 {
					t.Fatalf("%s is moved twice", s.Key)
				}
				members[i].Has, members[i].Move = s.Build, s.Move
				well(&members[i])
			}
		}
		for _, key := range plan.Settle {
			for i := range members {
				if members[i].Key == key {
					members[i].Move.Settled = true
				}
			}
		}
	}
	want := []int{1, 1, 2, 4, 8, 10, 10, 10, 10, 10, 10, 10, 10, 4, 0}
	if diff := cmp.Diff(want, waves); diff != "" {
		t.Errorf("waves: -want +got\n%s", diff)
	}
	if p := Decide(members, v2, Order{}, now); p.State.Phase != Current || p.State.UpToDate != 100 || p.After != 0 {
		t.Errorf("not at rest: %+v", p.State)
	}
}

// TestState: what people read.
func TestState(t *testing.T) {
	halted := []Member{moved("w/a", time.Hour), moved("w/b", time.Hour, offline, func(m *Member) {
		m.Trouble = "Deployment fleet-agent: ImagePullBackOff"
	}), at("w/c"), at("w/d", offline), at("w/e", held)}
	got := Decide(halted, v2, Order{}, now).State
	want := State{
		Phase: Halted, Image: v2.Image, From: v1.Image, Agents: 5, Offline: 1, Held: 1, FailedCount: 2,
		Failed: []Failure{
			{"w/a", "its bundle is not deployed yet"},
			{"w/b", "its bundle is not deployed: Deployment fleet-agent: ImagePullBackOff"},
		},
		Message: "2 agents are not well since they were updated: w/a, w/b; no further agent is updated",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	back, err := ParseState(got.String())
	if err != nil || cmp.Diff(got, back) != "" {
		t.Errorf("a state does not survive being written: %v, %+v", err, back)
	}
	move := Move{Image: "a", From: "b", At: now, Version: "v1", NotReady: 3}
	if diff := cmp.Diff(&move, ParseMove(move.String())); diff != "" {
		t.Errorf("a move does not survive being written: %s", diff)
	}
	if b := ParseBuild(v1.String()); b != v1 {
		t.Errorf("a build does not survive being written: %+v", b)
	}
	if ParseMove("{") != nil || ParseMove("") != nil || ParseBuild("x") != (Build{}) || ParseOrder("}") != (Order{}) {
		t.Error("what cannot be read is nothing")
	}
}
