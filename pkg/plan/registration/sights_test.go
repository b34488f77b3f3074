package registration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
			var s Sights
			now := noon
			for _, letter := range c.seen {
				switch letter {
				case '-':
					now = now.Add(time.Hour)
				case '.':
					s.See("", now)
				default:
					now = now.Add(time.Minute)
					s.See(string(letter), now)
				}
			}
			if got := s.Left(now) > 0; got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
			if s.Left(now.Add(DuplicateMemory)) != 0 {
				t.Error("it is over after a while")
			}
		})
	}
}

func TestIdentityConditions(t *testing.T) {
	var two Sights
	for _, name := range []string{"x", "y", "x", "y", "x"} {
		two.See(name, noon)
	}
	held := request("r", "a", 0)
	held.Status.ClusterName = "c"
	c := aCluster("c", "a", 0)

	list, left := IdentityConditions(c, &Sights{}, nil, noon)
	if len(list) != 0 || left != 0 {
		t.Errorf("nothing to say: %v, %s", list, left)
	}
	list, left = IdentityConditions(c, &two, []*fleet.ClusterRegistration{held}, noon)
	duplicate, waits := condition.Find(list, fleet.ConditionDuplicateIdentity), condition.Find(list, fleet.ConditionRegistrationWaiting)
	if left != DuplicateMemory || duplicate == nil || duplicate.Status != corev1.ConditionTrue || !strings.Contains(duplicate.Message, "(x and y)") {
		t.Errorf("want two agents, got %v, %s", list, left)
	}
	if waits == nil || !strings.Contains(waits.Message, "fleet cluster accept c") {
		t.Errorf("want what helps, got %v", waits)
	}
	// A manager that was started again knows only what it wrote.
	c.Status.Conditions = list
	list, left = IdentityConditions(c, &Sights{}, nil, noon.Add(20*time.Minute))
	if condition.Find(list, fleet.ConditionDuplicateIdentity) == nil || left != 40*time.Minute || condition.Find(list, fleet.ConditionRegistrationWaiting) != nil {
		t.Errorf("what was found out stands, what is over goes: %v, %s", list, left)
	}
	if list, left = IdentityConditions(c, &Sights{}, nil, noon.Add(61*time.Minute)); len(list) != 0 || left != 0 {
		t.Errorf("it is over: %v, %s", list, left)
	}
	if list, left = IdentityConditions(c, &two, nil, noon.Add(61*time.Minute)); len(list) != 0 || left != 0 {
		t.Errorf("nobody was seen for an hour: %v, %s", list, left)
	}
}
