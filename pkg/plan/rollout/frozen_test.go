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
			if got := Frozen(c.reason); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
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
				got = append(got, Frozen(s.Reason))
			}
			if !slices.Contains(got, want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
