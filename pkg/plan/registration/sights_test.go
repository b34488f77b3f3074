package registration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

func TestSights(t *testing.T) {
	cases := map[string]struct {
		why  string
		seen string // names, one letter each, a minute apart; - is an hour
		want bool   // two agents, at the end
	}{
		"One":            {why: "an agent alone", seen: "aaa"},
		"Restarts":       {why: "each start is another name, and none comes back", seen: "abcdefg"},
		"TwoInTurns":     {why: "a name that comes back is alive", seen: "ababa", want: true},
		"Restored":       {why: "a Cluster restored from a backup shows an old name, and then again the one that lives", seen: "abab"},
		"ThreeInTurns":   {why: "three clones", seen: "abcabc", want: true},
		"LongAgo":        {why: "what came back an hour ago proves nothing now", seen: "aba-ba"},
		"NoName":         {why: "agents of the reference have none", seen: "a.b.a"},
		"TwoAndARestart": {why: "the clone was started again in between", seen: "abacac", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var s AgentSightings
			now := noon
			for _, letter := range c.seen {
				switch letter {
				case '-':
					now = now.Add(time.Hour)
				case '.':
					s.Record(seenAs(""), now)
				default:
					now = now.Add(time.Minute)
					s.Record(seenAs(string(letter)), now)
				}
			}
			if got := s.aliveFor(seenAs("a"), now) > 0; got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
			if s.aliveFor(seenAs("a"), now.Add(3*time.Minute)) != 0 {
				t.Error("two agents are remembered for longer than three check-ins")
			}
		})
	}
}

// seenAs is a Cluster whose agent checks in every minute under a name.
func seenAs(name string) *fleet.Cluster {
	c := aCluster("c", "a", 0)
	next := metav1.NewTime(noon.Add(time.Minute))
	c.Status.Agent = fleet.AgentStatus{Instance: name, LastSeen: metav1.NewTime(noon), NextCheckIn: &next}
	return c
}

// Two agents are remembered for three check-ins, of which the shortest count as a
// minute.
func TestDuplicateMemory(t *testing.T) {
	for name, c := range map[string]struct{ interval, want time.Duration }{
		"Minute":   {time.Minute, 3 * time.Minute},
		"Second":   {time.Second, 3 * time.Minute},
		"Quarter":  {15 * time.Minute, 45 * time.Minute},
		"Daily":    {24 * time.Hour, 72 * time.Hour},
		"Never":    {1 << 62, 72 * time.Hour},
		"Backward": {-time.Hour, 3 * time.Minute},
	} {
		cluster, next := seenAs("x"), metav1.NewTime(noon.Add(c.interval))
		cluster.Status.Agent.NextCheckIn = &next
		if got := DuplicateMemory(cluster); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if got := DuplicateMemory(aCluster("c", "a", 0)); got != 3*time.Minute {
		t.Errorf("an agent that does not say how often: got %s", got)
	}
}

func TestIdentityConditions(t *testing.T) {
	var two AgentSightings
	for _, name := range []string{"x", "y", "x", "y", "x"} {
		two.Record(seenAs(name), noon)
	}
	held := request("r", "a", 0)
	held.Status.ClusterName = "c"
	c := aCluster("c", "a", 0)

	list, left := IdentityConditions(c, &AgentSightings{}, nil, noon)
	if len(list) != 0 || left != 0 {
		t.Errorf("nothing to say: %v, %s", list, left)
	}
	list, left = IdentityConditions(c, &two, []*fleet.ClusterRegistration{held}, noon)
	duplicate, waits := condition.Find(list, fleet.ConditionDuplicateIdentity), condition.Find(list, fleet.ConditionRegistrationWaiting)
	if left != 3*time.Minute || duplicate == nil || duplicate.Status != corev1.ConditionTrue || !strings.Contains(duplicate.Message, "(x and y)") {
		t.Errorf("want two agents, got %v, %s", list, left)
	}
	if waits == nil || !strings.Contains(waits.Message, "fleet cluster accept -n fleet-default c") {
		t.Errorf("want what helps, got %v", waits)
	}
	// A manager that was started again knows only what it wrote, and watches first.
	c.Status.Conditions = list
	started := noon.Add(20 * time.Minute)
	var again AgentSightings
	again.Record(seenAs("x"), started)
	list, left = IdentityConditions(c, &again, nil, started.Add(time.Minute))
	if condition.Find(list, fleet.ConditionDuplicateIdentity) == nil || left != 2*time.Minute || condition.Find(list, fleet.ConditionRegistrationWaiting) != nil {
		t.Errorf("what was found out stands, what is over goes: %v, %s", list, left)
	}
	again.Record(seenAs("y"), started.Add(time.Minute))
	again.Record(seenAs("x"), started.Add(2*time.Minute))
	list, left = IdentityConditions(c, &again, nil, started.Add(4*time.Minute))
	if condition.Find(list, fleet.ConditionDuplicateIdentity) == nil || left != time.Minute {
		t.Errorf("one return confirms it: %v, %s", list, left)
	}
	if list, left = IdentityConditions(c, &again, nil, started.Add(5*time.Minute)); len(list) != 0 || left != 0 {
		t.Errorf("it is over: %v, %s", list, left)
	}
	// The clone is gone: the other one's name comes back once more, and that is all.
	if list, left = IdentityConditions(c, &two, nil, noon.Add(3*time.Minute)); len(list) != 0 || left != 0 {
		t.Errorf("no second agent was seen for three minutes: %v, %s", list, left)
	}
}
