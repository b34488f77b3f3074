package rollout

import (
	"slices"
	"testing"
)

func TestFrozen(t *testing.T) {
	cases := map[string]struct{ why, reason, want string }{
		"All":       {"no cluster of the bundle may be unavailable", "waits for room: 0 may be unavailable", "rolloutStrategy.maxUnavailable"},
		"Partition": {"no cluster of the partition may be", `waits for room in partition "ring-1": 0 may be unavailable`, `maxUnavailable of partition "ring-1" in rolloutStrategy`},
		"New":       {"no cluster is new", "new deployments are not created: maxNew is 0", "rolloutStrategy.maxNew"},
		"Room":      {"room comes", "waits for room: 10 may be unavailable", ""},
		"Turn":      {"the partition before is done at some time", `waits for partition "ring-1"`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ZeroLimit(c.reason); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

func TestQueued(t *testing.T) {
	for reason, want := range map[string]string{
		`waits for partition "ring-1"`:                               "ring-1",
		`waits for partition "a \"b\" c"`:                            `a "b" c`,
		`waits for partition "ring-1" and more`:                      "",
		`waits for room in partition "ring-1": 0 may be unavailable`: "",
		"up to date": "",
	} {
		if got := Queued(reason); got != want {
			t.Errorf("%s: want %q, got %q", reason, want, got)
		}
	}
}

// The reason of a Step that waits for an earlier partition is one that Queued knows.
func TestQueuedReasons(t *testing.T) {
	shape := Shape{MaxUnavailable: 2, MaxNew: 1, Partitions: []Partition{{Name: "first", Members: []int{0}}, {Name: "second", Limit: 1, Members: []int{1}}}}
	at := Target{Exists: true, Current: "old", Staged: "old", Desired: "new", Applied: "old", Ready: true}
	steps := Plan(shape, []Target{at, at}).Steps
	if got := Queued(steps[1].Reason); got != "first" {
		t.Errorf("got %q of %q", got, steps[1].Reason)
	}
}

// The reasons of Steps are those that Frozen knows.
func TestFrozenReasons(t *testing.T) {
	target := func(name string, exists bool) Target {
		return Target{Name: name, Exists: exists, Current: "old", Staged: "old", Desired: "new", Applied: "old", Ready: true}
	}
	parts := func(limit int) []Partition {
		return []Partition{{Name: "first", Limit: limit, Members: []int{0, 1}}}
	}
	cases := map[string]Shape{
		"rolloutStrategy.maxUnavailable":                         {MaxUnavailable: 0, MaxNew: 1, Partitions: parts(1)},
		`maxUnavailable of partition "first" in rolloutStrategy`: {MaxUnavailable: 2, MaxNew: 1, Partitions: parts(0)},
		"rolloutStrategy.maxNew":                                 {MaxUnavailable: 2, Partitions: parts(2)},
	}
	for want, shape := range cases {
		t.Run(want, func(t *testing.T) {
			var got []string
			for _, s := range Plan(shape, []Target{target("a", true), target("b", false)}).Steps {
				got = append(got, ZeroLimit(s.Reason))
			}
			if !slices.Contains(got, want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
