package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// randomShape cuts n targets into partitions with limits of all sizes.
func randomShape(rnd *rand.Rand, n int) Shape {
	s := Shape{MaxUnavailable: rnd.IntN(n + 1), MaxUnavailablePartitions: rnd.IntN(2), MaxNew: rnd.IntN(5)}
	for start := 0; start < n; {
		end := min(n, start+1+rnd.IntN(5))
		if rnd.IntN(8) > 0 { // else they are in no partition
			s.Partitions = append(s.Partitions, Partition{Name: fmt.Sprint("p", start), Limit: rnd.IntN(end - start + 1), Members: members(start, end)})
		}
		start = end
	}
	return s
}

func randomWorld(rnd *rand.Rand) *world {
	n := 1 + rnd.IntN(12)
	sites := manySites(n, "v1")
	w := newWorld(randomShape(rnd, n), sites...)
	w.interval = []time.Duration{30 * time.Second, time.Minute, 15 * time.Minute}[rnd.IntN(3)]
	for i, s := range sites {
		switch rnd.IntN(6) {
		case 0:
			*s = site{name: s.name, desired: "v2", up: rnd.IntN(3) > 0}
		case 1:
			s.ready = false
		case 2:
			s.up, w.offline[i] = false, rnd.IntN(2) == 0
		case 3:
			s.staged, s.current = "v0", "v0" // promoted by an earlier rollout, and never taken
		}
		s.slow = []time.Duration{0, 0, 20 * time.Second, 3 * time.Minute}[rnd.IntN(4)]
	}
	w.restart()
	return w
}

// trouble is one thing that happens from outside.
func (w *world) trouble(rnd *rand.Rand, version *int) {
	s := w.sites[rnd.IntN(len(w.sites))]
	switch rnd.IntN(9) {
	case 0, 1:
		s.up = !s.up
	case 2, 3:
		s.broken = !s.broken
	case 4:
		w.restart()
	case 5:
		s.paused = !s.paused
	case 6:
		*version++
		for _, s := range w.sites {
			s.desired = fmt.Sprint("v", *version)
		}
	case 7:
		s.desired = "" // its options cannot be worked out any more
	case 8:
		s.desired = fmt.Sprint("v", *version)
	}
}

// Whatever happens, a plan keeps its promises; and when all is repaired, the
// rollout ends with everything current.
func TestPlanKeepsItsPromises(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w, version := randomWorld(rnd), 2
		for range 60 {
			if rnd.IntN(3) == 0 {
				w.trouble(rnd, &version)
			}
			fault := promises(w.shape, w.targets())
			if fault == "" {
				fault = w.interrupted(rnd)
			}
			if fault != "" {
				t.Fatalf("seed %d at %s: %s\n%+v", seed, w.now, fault, w.shape)
			}
			w.round()
			w.pass([]time.Duration{10 * time.Second, time.Minute}[rnd.IntN(2)])
		}
		w.repair(version)
		fault := "never looked"
		for n := 0; n < 400 && fault != ""; n++ {
			w.round()
			w.pass(10 * time.Second)
			fault = w.unfinished()
		}
		if fault != "" {
			t.Fatalf("seed %d: %s\n%+v", seed, fault, w.shape)
		}
	}
}

// repair lets everything work again.
func (w *world) repair(version int) {
	for _, s := range w.sites {
		s.up, s.broken, s.paused, s.desired = true, false, false, fmt.Sprint("v", version)
	}
}

// unfinished says what did not become current although nothing stands against it.
func (w *world) unfinished() string {
	for _, p := range w.shape.Partitions {
		if p.Limit == 0 {
			return "" // a person has frozen it
		}
	}
	if w.shape.MaxUnavailable == 0 {
		return ""
	}
	targets := w.targets()
	r := Plan(w.shape, targets)
	for _, p := range w.shape.Partitions {
		for _, i := range p.Members {
			x := targets[i]
			if !x.Exists && w.shape.MaxNew == 0 {
				return ""
			}
			if !x.IsSettled() || !x.Ready {
				return fmt.Sprintf("%+v never got there: %s; %s", x, r.Steps[i].Reason, r.Stop)
			}
		}
	}
	if r.Stop != nil || r.Deferred > 0 || r.Unavailable > 0 {
		return fmt.Sprintf("all are there, but: %+v", r)
	}
	return ""
}

// promises checks one plan, and says which promise it breaks.
func promises(shape Shape, targets []Target) string {
	before := slices.Clone(targets)
	old, r := Count(shape, targets), Plan(shape, targets)
	if !slices.Equal(before, targets) {
		return "the targets were changed"
	}
	for _, f := range []func(Shape, []Target, Result, Result) string{budgets, pauses, unaided, truthful} {
		if fault := f(shape, targets, old, r); fault != "" {
			return fault
		}
	}
	return ""
}

// budgets: what is taken down stays within the limits, of the Bundle and of each
// partition, and so does what is promoted unseen.
func budgets(shape Shape, targets []Target, old, r Result) string {
	blind := make([]int, len(shape.Partitions))
	allBlind := 0
	for i, s := range r.Steps {
		x := &targets[i]
		if s.Costs && (x.Unavailable() || x.Deferred()) || s.Blind && !x.Deferred() || s.Costs && !s.Move || s.Blind && !s.Move {
			return fmt.Sprintf("%+v of %+v", s, x)
		}
		if moves := s.Move && x.Exists && x.Current != x.Desired; moves && !s.Costs && !s.Blind && !x.down() {
			return fmt.Sprintf("%s goes down uncounted: %+v", x.Name, s)
		}
		if s.Blind && !x.down() {
			allBlind++
			for n, p := range shape.Partitions {
				if slices.Contains(p.Members, i) {
					blind[n]++
				}
			}
		}
	}
	if r.Unavailable > max(old.Unavailable, shape.MaxUnavailable) {
		return fmt.Sprintf("%d down, then %d of %d", old.Unavailable, r.Unavailable, shape.MaxUnavailable)
	}
	if allBlind > max(0, shape.MaxUnavailable-old.Blind) {
		return fmt.Sprintf("%d promoted unseen, then %d more of %d", old.Blind, allBlind, shape.MaxUnavailable)
	}
	for n, p := range shape.Partitions {
		was, is := old.Partitions[n].Unavailable, r.Partitions[n].Unavailable
		if is > max(was, p.Limit) {
			return fmt.Sprintf("partition %s: %d down, then %d of %d", p.Name, was, is, p.Limit)
		}
		if blind[n] > p.Limit {
			return fmt.Sprintf("partition %s: %d promoted unseen of %d", p.Name, blind[n], p.Limit)
		}
	}
	if r.Batch != shape.MaxNew {
		return fmt.Sprintf("%d created at once, %d allowed", r.Batch, shape.MaxNew)
	}
	return ""
}

// pauses: what is paused is staged and not promoted, and nothing else is held
// for that reason.
func pauses(_ Shape, targets []Target, _, r Result) string {
	for i, s := range r.Steps {
		x := &targets[i]
		if x.Paused && s.Move || !x.Paused && (s.Reason == "paused" || s.Reason == "new, paused") {
			return fmt.Sprintf("paused %v, but %+v", x.Paused, s)
		}
	}
	return ""
}

// unaided: the others do what they would do if there were no deferred clusters.
func unaided(shape Shape, targets []Target, _, r Result) string {
	here := shape
	here.Partitions = nil
	for _, p := range shape.Partitions {
		p.Members = slices.DeleteFunc(slices.Clone(p.Members), func(i int) bool { return targets[i].Deferred() })
		here.Partitions = append(here.Partitions, p)
	}
	want := Plan(here, targets)
	for i := range targets {
		if !targets[i].Deferred() && want.Steps[i] != r.Steps[i] {
			return fmt.Sprintf("%s: without deferred clusters %+v, with them %+v", targets[i].Name, want.Steps[i], r.Steps[i])
		}
	}
	if want.Unavailable != r.Unavailable || want.UnavailablePartitions != r.UnavailablePartitions {
		return fmt.Sprintf("deferred clusters are counted: %+v, %+v", want, r)
	}
	return ""
}

// truthful: a rollout says that it waits if, and only if, a target waits; and
// each target in no partition is counted.
func truthful(shape Shape, targets []Target, _, r Result) string {
	waits, outside := false, 0
	for i, s := range r.Steps {
		waits = waits || s.Waits && targets[i].Desired != ""
		if s.Reason == ReasonOutside {
			outside++
		}
	}
	if waits != (r.Stop != nil) {
		return fmt.Sprintf("waits %v, but says %q", waits, r.Stop)
	}
	if r.Stop != nil && r.Stop.Clusters.Count <= r.Stop.Allowed && r.Stop.For != "" {
		return fmt.Sprintf("no target waits: %q", r.Stop)
	}
	if r.Stop != nil && r.Stop.For == "" && r.Stop.Partition == "" && r.Stop.Clusters.Count != r.Unavailable {
		return fmt.Sprintf("%d unavailable, waits for %d", r.Unavailable, r.Stop.Clusters.Count)
	}
	if outside != r.Outside.Count {
		return fmt.Sprintf("%d in no partition, %d counted", outside, r.Outside.Count)
	}
	return ""
}

// interrupted kills the manager after any number of writes: one that starts from
// the objects alone ends at the same objects, and then has nothing to write.
func (w *world) interrupted(rnd *rand.Rand) string {
	clone := func() *world {
		c := *w
		c.sites = nil
		for _, s := range w.sites {
			copied := *s
			c.sites = append(c.sites, &copied)
		}
		c.asked, c.silent, c.offline, c.heard = slices.Clone(w.asked), slices.Clone(w.silent), slices.Clone(w.offline), slices.Clone(w.heard)
		return &c
	}
	for i := range w.silent {
		if w.silent[i] {
			return w.forgetful(clone)
		}
	}
	whole := clone()
	whole.round()
	partly := clone()
	for i, s := range Plan(w.shape, w.targets()).Steps {
		if rnd.IntN(2) == 0 {
			partly.write(i, s)
		}
	}
	partly.restart()
	partly.round()
	if fault := same(w.targets(), whole.targets(), partly.targets()); fault != "" {
		return fault
	}
	if _, written := partly.round(); written > 0 {
		return fmt.Sprintf("a second look writes %d objects", written)
	}
	return ""
}

// same compares what became of targets with and without an interruption. A
// deployment that was created counts as down from then on, so that others may
// have to wait that would not have waited for one that is created at the same
// time: nothing is promoted that would not have been.
func same(before, whole, partly []Target) string {
	created := slices.ContainsFunc(before, func(t Target) bool { return !t.Exists })
	for i := range whole {
		x, y := whole[i], partly[i]
		if x != y && (!created || y.Current != x.Current && y.Current != before[i].Current) {
			return fmt.Sprintf("a restart amid writes gives something else: %+v, want %+v", y, x)
		}
	}
	return ""
}

// forgetful: a manager that has just started does not know who was silent. Until
// it does, it takes nothing down that it would not have taken down.
func (w *world) forgetful(clone func() *world) string {
	fresh := clone()
	fresh.restart()
	knows, forgets := Plan(w.shape, w.targets()), Plan(w.shape, fresh.targets())
	for i := range w.sites {
		if !w.silent[i] && !w.offline[i] && forgets.Steps[i].Move && !knows.Steps[i].Move {
			return fmt.Sprintf("%s: %+v, after a restart %+v", w.sites[i].name, knows.Steps[i], forgets.Steps[i])
		}
	}
	return ""
}

// A pause on Bundle or repository is a pause of all targets, one on a cluster
// that of its target: with room for all, exactly those are held.
func TestPauseHoldsExactlyThose(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		n := 1 + rnd.IntN(8)
		w := newWorld(undivided(n, n), manySites(n, "v1")...)
		all := rnd.IntN(4) == 0
		for _, s := range w.sites {
			s.paused = all || rnd.IntN(3) == 0
		}
		for range 5 {
			w.round()
			w.pass(10 * time.Second)
		}
		for _, s := range w.sites {
			held := s.staged == "v2" && s.current == "v1" && s.applied == "v1"
			there := s.current == "v2" && s.applied == "v2"
			if s.paused != held || s.paused == there {
				t.Fatalf("seed %d: %+v", seed, s)
			}
		}
	}
}

// A target in several partitions is decided once, and counts in all of them.
func TestOverlappingPartitions(t *testing.T) {
	shape := Shape{MaxUnavailable: 3, MaxUnavailablePartitions: 1, MaxNew: 50, Partitions: []Partition{
		{Name: "canary", Limit: 1, Members: []int{0, 1}}, {Name: "all", Limit: 1, Members: []int{0, 1, 2}},
	}}
	r := Plan(shape, running("a b c"))
	var moved []bool
	for _, s := range r.Steps {
		moved = append(moved, s.Move)
	}
	if !slices.Equal(moved, []bool{true, false, false}) {
		t.Errorf("a is down in both partitions, so no other target has room: %v", moved)
	}
	if r.Unavailable != 1 || r.Partitions[0].Unavailable != 1 || r.Partitions[1].Unavailable != 1 {
		t.Errorf("%+v", r)
	}
}
