package checkin

import (
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// answers are the instances that one agent finds at its check-ins.
func TestRivalry(t *testing.T) {
	cases := map[string]struct {
		why       string
		own       string
		answers   []string
		moving    int // so many of the first of them while the agent moves
		duplicate string
		younger   bool
	}{
		"Alone":    {why: "nobody else", own: "2", answers: []string{"2", "2", "2"}},
		"OldAgent": {why: "the last word of a process that is gone", own: "1", answers: []string{"1", "2", "1", "1"}},
		"Twins":    {why: "the other comes back", own: "2", answers: []string{"2", "1", "2", "1"}, duplicate: "1", younger: true},
		"Elder":    {why: "the older one goes on", own: "1", answers: []string{"2", "1", "2"}, duplicate: "2"},
		"Over":     {why: "the other was stopped", own: "2", answers: []string{"1", "2", "1", "2", "2", "2", "2"}},
		"Lull": {
			why: "two that write in turns do not see each other each time", own: "2",
			answers: []string{"1", "2", "1", "2", "2", "2"}, duplicate: "1", younger: true,
		},
		"Moves": {
			why: "the agent before goes on until it is removed, and this one works from the first moment on", own: "2",
			answers: []string{"2", "1", "2", "1", "1"}, moving: 5,
		},
		"Moved": {why: "the last word of the agent before", own: "2", answers: []string{"2", "1", "1", "2"}, moving: 2},
		"MovedTwin": {
			why: "what comes back after the move was never the agent before", own: "2",
			answers: []string{"2", "1", "2", "1", "2", "1"}, moving: 2, duplicate: "1", younger: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := rivalry{own: c.own}
			var duplicate string
			var younger bool
			for i, a := range c.answers {
				duplicate, younger = r.judgeInstance(a, i < c.moving)
			}
			if duplicate != c.duplicate || younger != c.younger {
				t.Errorf("%s: got %q, %v", c.why, duplicate, younger)
			}
		})
	}
}

// What is wrong in the agent's own cluster is told when it has changed, and once by
// each series of check-ins, which does not know what the one before has said.
func TestTroubleIsReported(t *testing.T) {
	c := New(Config{
		Next: func(now time.Time) time.Time { return now }, Orphans: func() (fleet.AgentOrphans, bool) { return fleet.AgentOrphans{}, false },
	})
	for _, step := range []struct {
		why, trouble, want string
		claimed            bool
	}{
		{why: "the first one clears what stood there", want: `"trouble":null`},
		{why: "nothing has changed", claimed: true},
		{why: "something is wrong", claimed: true, trouble: "gone", want: `"trouble":"gone"`},
	} {
		c.claimed = step.claimed
		body, err := c.body(nil, step.trouble)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(body); strings.Contains(got, "trouble") != (step.want != "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: got %s", step.why, got)
		}
	}
}

func TestNewInstance(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	older, err := NewInstance(at, "")
	if err != nil {
		t.Fatal(err)
	}
	younger, err := NewInstance(at.Add(time.Millisecond), "u")
	if err != nil {
		t.Fatal(err)
	}
	if younger <= older {
		t.Errorf("%q is not greater than %q", younger, older)
	}
}

// Two agents are known to work in different clusters where both say in which.
func TestElsewhere(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	name := func(uid string) string {
		out, err := NewInstance(at, uid)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for why, c := range map[string]struct {
		one, other string
		want       bool
	}{
		"different clusters":          {name("a"), name("b"), true},
		"the same, copied as a whole": {name("a"), name("a"), false},
		"an agent that does not say":  {name("a"), name(""), false},
		"no other agent":              {name("a"), "", false},
	} {
		if got := differentClusters(c.one, c.other); got != c.want {
			t.Errorf("%s: got %v", why, got)
		}
	}
}
