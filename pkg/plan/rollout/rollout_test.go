package rollout

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func number(n int) *intstr.IntOrString  { v := intstr.FromInt(n); return &v }
func text(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }

func TestLimit(t *testing.T) {
	cases := map[string]struct {
		why   string
		count int
		value *intstr.IntOrString
		want  int
		bad   bool
	}{
		"Unset":          {why: "the default is all of them", count: 7, want: 7},
		"NoTargets":      {why: "without targets one may be unavailable", count: 0, value: number(5), want: 1},
		"Integer":        {why: "an integer counts as it is", count: 7, value: number(3), want: 3},
		"IntegerZero":    {why: "0 freezes the rollout", count: 7, value: number(0), want: 0},
		"IntegerAbove":   {why: "never more than there are", count: 7, value: number(9), want: 7},
		"IntegerBelow":   {why: "never less than none", count: 7, value: number(-1), want: 0},
		"Percent":        {why: "rounded down", count: 7, value: text("50%"), want: 3},
		"PercentSmall":   {why: "a percentage always lets one go", count: 7, value: text("1%"), want: 1},
		"PercentZero":    {why: "also 0%", count: 7, value: text("0%"), want: 1},
		"PercentAbove":   {why: "never more than there are", count: 7, value: text("200%"), want: 7},
		"TextNumber":     {why: "a number as text has no upper bound", count: 7, value: text("12"), want: 12},
		"TextNumberZero": {why: "but must be above 0", count: 7, value: text("0"), bad: true},
		"Nonsense":       {why: "a typing error is reported, not guessed", count: 7, value: text("many"), bad: true},
		"NaN":            {why: "what Go reads as a number is not one", count: 7, value: text("NaN%"), bad: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Limit(c.count, nil, c.value)
			if got != c.want || (err != nil) != c.bad {
				t.Errorf("%s: got %d, %v", c.why, got, err)
			}
		})
	}
}

func clusters(n int) []*target.Cluster {
	var out []*target.Cluster
	for i := range n {
		out = append(out, &target.Cluster{Namespace: "ns", Name: fmt.Sprintf("c%03d", i),
			Labels: map[string]string{"ring": fmt.Sprint(i % 3)}})
	}
	return out
}

func TestResolve(t *testing.T) {
	ring := func(n string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"ring": n}}
	}
	cases := map[string]struct {
		why      string
		strategy *fleet.RolloutStrategy
		count    int
		want     string
	}{
		"Default":       {"below the threshold there is one partition", nil, 3, "All 3/3 | all 3, partitions 0, new 50"},
		"FromThreshold": {"from 200 on there are four", nil, 200, "Partition 0 - 50 50/50, Partition 50 - 100 50/50, Partition 100 - 150 50/50, Partition 150 - 200 50/50 | all 200, partitions 0, new 50"},
		"Off":           {"a size of 0 turns partitions off", &fleet.RolloutStrategy{AutoPartitionSize: number(0)}, 200, "All 200/200 | all 200, partitions 0, new 50"},
		"Manual": {"a cluster may be in two partitions or in none", &fleet.RolloutStrategy{MaxUnavailable: text("50%"), Partitions: []fleet.Partition{
			{Name: "canary", ClusterName: "c000", MaxUnavailable: number(0)}, {Name: "ring0", ClusterSelector: ring("0")}}}, 9,
			"canary 1/0, ring0 3/1 | all 4, partitions 0, new 50"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Resolve(c.strategy, clusters(c.count))
			if err != nil {
				t.Fatal(err)
			}
			var parts []string
			for _, p := range s.Partitions {
				parts = append(parts, fmt.Sprintf("%s %d/%d", p.Name, len(p.Members), p.Limit))
			}
			got := fmt.Sprintf("%s | all %d, partitions %d, new %d",
				strings.Join(parts, ", "), s.MaxUnavailable, s.MaxUnavailablePartitions, s.MaxNew)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// rounds are targets whose agents apply the deployment that the manager wrote
// after one round, unless they are offline or broken.
type rounds struct {
	shape   Shape
	targets []Target
	broken  map[int]bool
}

// round plans, applies the plan and returns it.
func (rn *rounds) round() Result {
	r := Plan(rn.shape, rn.targets)
	for i, s := range r.Steps {
		t := &rn.targets[i]
		t.Exists = t.Exists || s.Create
		if s.Stage {
			t.Staged = t.Desired
		}
		if s.Move {
			t.Current = t.Desired
		}
	}
	return r
}

// agents lets every agent do its work.
func (rn *rounds) agents() {
	for i := range rn.targets {
		t := &rn.targets[i]
		if t.Exists && !t.Offline && t.Closed == "" && !t.Paused {
			t.Applied, t.Ready = t.Current, !rn.broken[i] && t.Current != ""
		}
	}
}

func running(names string) []Target {
	var out []Target
	for _, n := range strings.Fields(names) {
		out = append(out, Target{Name: n, Desired: "2", Exists: true, Staged: "1", Current: "1", Applied: "1", Ready: true})
	}
	return out
}

func members(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// TestTrace plays each scenario until nothing moves and compares the trace
// with testdata/TestTrace/<scenario>.golden. Run with -update after a change
// of rules, and read the difference before you commit it.
func TestTrace(t *testing.T) {
	one := func(limit, n int) []Partition {
		return []Partition{{Name: Everything, Limit: limit, Members: members(0, n)}}
	}
	const closed = "outside of the change windows of this cluster: the next one opens at 2027-01-01T22:00:00Z"
	canary := []Partition{{Name: "canary", Limit: 1, Members: members(0, 2)}, {Name: "rest", Limit: 2, Members: members(2, 4)}}
	scenarios := map[string]func() *rounds{
		"all-at-once": func() *rounds {
			return &rounds{shape: Shape{Partitions: one(3, 3), MaxUnavailable: 3, MaxNew: 50}, targets: running("a b c")}
		},
		"one-by-one": func() *rounds {
			return &rounds{shape: Shape{Partitions: one(3, 3), MaxUnavailable: 1, MaxNew: 50}, targets: running("a b c")}
		},
		"canary-then-rest": func() *rounds {
			return &rounds{shape: Shape{Partitions: canary, MaxUnavailable: 4, MaxNew: 50}, targets: running("a b c d")}
		},
		"broken-canary": func() *rounds {
			return &rounds{shape: Shape{Partitions: canary, MaxUnavailable: 4, MaxNew: 50}, targets: running("a b c d"),
				broken: map[int]bool{0: true, 1: true}}
		},
		"offline-is-not-waited-for": func() *rounds {
			w := &rounds{shape: Shape{Partitions: canary, MaxUnavailable: 1, MaxNew: 50}, targets: running("a b c d")}
			w.targets[0].Offline = true
			return w
		},
		"closed-is-not-waited-for": func() *rounds {
			w := &rounds{shape: Shape{Partitions: canary, MaxUnavailable: 1, MaxNew: 50}, targets: running("a b c d")}
			for _, i := range []int{0, 2, 3} {
				w.targets[i].Closed = closed
			}
			return w
		},
		"closed-gets-what-is-new": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(2, 2), MaxUnavailable: 1, MaxNew: 50}}
			w.targets = []Target{{Name: "a", Desired: "1", Closed: closed}, {Name: "b", Desired: "1"}}
			return w
		},
		"paused-is-only-staged": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(2, 2), MaxUnavailable: 2, MaxNew: 50}, targets: running("a b")}
			w.targets[0].Paused = true
			return w
		},
		"held-takes-no-room": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(3, 3), MaxUnavailable: 1, MaxNew: 50}, targets: running("a b c")}
			w.targets[0].Held, w.targets[0].Paused = "its release may not be replaced yet", true
			return w
		},
		"down-moves-without-room": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(0, 2), MaxUnavailable: 0, MaxNew: 50}, targets: running("a b")}
			w.targets[0].Ready = false
			return w
		},
		"new-in-turns": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(5, 5), MaxUnavailable: 5, MaxNew: 2}}
			for _, n := range strings.Fields("a b c d e") {
				w.targets = append(w.targets, Target{Name: n, Desired: "1"})
			}
			return w
		},
		"in-no-partition": func() *rounds {
			return &rounds{shape: Shape{Partitions: canary[:1], MaxUnavailable: 2, MaxNew: 50}, targets: running("a b c")}
		},
		"options-unknown": func() *rounds {
			w := &rounds{shape: Shape{Partitions: one(2, 2), MaxUnavailable: 2, MaxNew: 50}, targets: running("a b")}
			w.targets[0].Desired = ""
			return w
		},
	}
	for name, make := range scenarios {
		t.Run(name, func(t *testing.T) {
			golden(t, trace(make(), 20))
		})
	}
}

func trace(w *rounds, most int) string {
	var b strings.Builder
	last := ""
	for i := 1; i <= most; i++ {
		r := w.round()
		var trace strings.Builder
		for n, s := range r.Steps {
			mark := " "
			switch {
			case s.Create && s.Move:
				mark = "+"
			case s.Costs || s.Move && s.Reason != "up to date":
				mark = ">"
			}
			fmt.Fprintf(&trace, "  %s %s %s\n", mark, w.targets[n].Name, s.Reason)
		}
		fmt.Fprintf(&trace, "    unavailable %d, partitions above their limit %d\n", r.Unavailable, r.UnavailablePartitions)
		for _, text := range []string{r.Stop.String(), OutsideText(r.Outside)} {
			if text != "" {
				fmt.Fprintf(&trace, "    %s\n", text)
			}
		}
		if trace.String() == last {
			break
		}
		last = trace.String()
		fmt.Fprintf(&b, "round %d\n%s", i, last)
		w.agents()
	}
	return b.String()
}

func golden(t *testing.T, got string) {
	t.Helper()
	sameAs(t, ".golden", got)
}

// sameAs compares with a file of the test's name.
func sameAs(t *testing.T, ending, got string) {
	t.Helper()
	path := filepath.Join("testdata", t.Name()+ending)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMoves(t *testing.T) {
	cluster := func(env string) *target.Cluster {
		return &target.Cluster{Namespace: "ns", Name: "c", Labels: map[string]string{"env": env}}
	}
	env := func(value string) fleet.Partition {
		return fleet.Partition{Name: value, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}}
	}
	odd := fleet.Partition{ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}}
	for why, c := range map[string]struct {
		strategy *fleet.RolloutStrategy
		was, is  string
		want     bool
	}{
		"no strategy":           {nil, "a", "b", false},
		"no partitions":         {&fleet.RolloutStrategy{}, "a", "b", false},
		"into one":              {&fleet.RolloutStrategy{Partitions: []fleet.Partition{env("b")}}, "a", "b", true},
		"out of one":            {&fleet.RolloutStrategy{Partitions: []fleet.Partition{env("a")}}, "a", "b", true},
		"in none before, after": {&fleet.RolloutStrategy{Partitions: []fleet.Partition{env("c")}}, "a", "b", false},
		"stays":                 {&fleet.RolloutStrategy{Partitions: []fleet.Partition{env("a"), env("b")}}, "a", "a", false},
		"cannot be read":        {&fleet.RolloutStrategy{Partitions: []fleet.Partition{odd}}, "a", "a", true},
	} {
		if got := ChangesPartition(c.strategy, cluster(c.was), cluster(c.is)); got != c.want {
			t.Errorf("%s: want %v", why, c.want)
		}
	}
}
