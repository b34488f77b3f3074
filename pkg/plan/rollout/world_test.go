package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A site is one cluster: its deployment as the API server has it, and its agent.
type site struct {
	name    string
	desired string
	paused  bool

	exists          bool // the deployment
	staged, current string
	applied         string
	ready           bool
	failed          string // the version of which the agent has reported that it fails

	up     bool          // there is an agent, and it reaches the API server
	broken bool          // whatever it deploys fails, and what runs is not ready
	cannot string        // a version that it cannot deploy
	slow   time.Duration // how long a deployment takes
	begun  time.Duration // when it began with the current version
	seen   string        // the version that it began with
	beat   time.Duration // its last check-in
}

// A world is a rollout and all who take part in it, by a clock that starts at
// 0. The times in memory are what a restart of the manager loses.
type world struct {
	shape    Shape
	sites    []*site
	now      time.Duration
	interval time.Duration // of check-ins

	offline []bool          // also in the status of Clusters
	heard   []time.Duration // in memory
	asked   []time.Duration // since when an answer is owed; negative: it is not
	silent  []bool

	changes []string // what agents and clusters did since the last look
}

// missed is after how many intervals a cluster counts as offline.
const missed = 3

func newWorld(shape Shape, sites ...*site) *world {
	w := &world{shape: shape, sites: sites, interval: time.Minute, offline: make([]bool, len(sites))}
	w.restart()
	return w
}

// manySites are n sites that run a version; "" for none yet.
func manySites(n int, runs string) []*site {
	var out []*site
	for i := range n {
		s := &site{name: fmt.Sprintf("c%02d", i+1), desired: "v2", up: true}
		if runs != "" {
			s.exists, s.staged, s.current, s.applied, s.seen, s.ready = true, runs, runs, runs, runs, true
		}
		out = append(out, s)
	}
	return out
}

// restart starts a manager that knows nothing but objects.
func (w *world) restart() {
	n := len(w.sites)
	w.heard, w.asked, w.silent = make([]time.Duration, n), make([]time.Duration, n), make([]bool, n)
	for i, s := range w.sites {
		w.heard[i], w.asked[i] = w.now, -1
		if s.exists && s.current != "" && s.current != s.applied && !s.paused {
			w.asked[i] = w.now
		}
	}
}

func (w *world) say(format string, args ...any) {
	w.changes = append(w.changes, fmt.Sprintf(format, args...))
}

// heartbeat is a sign of life.
func (w *world) heartbeat(i int) {
	w.heard[i], w.asked[i] = w.now, -1
	if w.offline[i] || w.silent[i] {
		w.say("%s is heard of again", w.sites[i].name)
	}
	w.offline[i], w.silent[i] = false, false
}

// pass lets time pass: agents work, and the manager notices who does not.
func (w *world) pass(d time.Duration) {
	w.now += d
	for i, s := range w.sites {
		if s.up {
			w.agent(i, s)
		}
		if !w.offline[i] && w.now-w.heard[i] >= missed*w.interval {
			w.offline[i] = true
			w.say("%s is offline", s.name)
		}
		if !w.offline[i] && !w.silent[i] && w.asked[i] >= 0 && w.now-w.asked[i] >= SilentAfter {
			w.silent[i] = true
			w.say("%s is silent", s.name)
		}
	}
}

func (w *world) agent(i int, s *site) {
	if w.now-s.beat >= w.interval {
		s.beat = w.now
		w.heartbeat(i)
	}
	if !s.exists || s.paused || s.current == "" {
		return
	}
	if s.seen != s.current {
		s.seen, s.begun, s.failed = s.current, w.now, ""
	}
	switch {
	case w.now-s.begun < s.slow, s.applied == s.current && s.ready == !s.broken:
		return
	case !s.broken && s.current != s.cannot:
		s.applied, s.ready, s.failed = s.current, true, ""
		w.say("%s runs %s", s.name, s.applied)
	case s.applied == s.current:
		s.ready = false
		w.say("%s is not ready", s.name)
	case s.failed == s.current:
		return
	default:
		s.failed = s.current
		w.say("%s cannot deploy %s", s.name, s.current)
	}
	w.heartbeat(i)
}

// targets returns the arguments of Plan for all sites.
func (w *world) targets() []Target {
	out := make([]Target, len(w.sites))
	for i, s := range w.sites {
		out[i] = Target{Name: s.name, Desired: s.desired, Exists: s.exists, Staged: s.staged, Current: s.current,
			Applied: s.applied, Ready: s.ready, Paused: s.paused, Offline: w.offline[i], Silent: w.silent[i]}
	}
	return out
}

// write carries out one step, and reports whether anything had to be written.
func (w *world) write(i int, step Step) bool {
	s := w.sites[i]
	was := [3]string{fmt.Sprint(s.exists), s.staged, s.current}
	s.exists = s.exists || step.Create
	if step.Stage {
		s.staged = s.desired
	}
	if step.Move {
		s.current = s.desired
	}
	if s.current != was[2] && !s.paused && w.asked[i] < 0 {
		w.asked[i] = w.now
	}
	return was != [3]string{fmt.Sprint(s.exists), s.staged, s.current}
}

// round plans and writes everything.
func (w *world) round() (Result, int) {
	r, written := Plan(w.shape, w.targets()), 0
	for i, s := range r.Steps {
		if w.write(i, s) {
			written++
		}
	}
	return r, written
}

// A tale writes the timeline of a rollout: what happened when, and what each
// target waits for.
type tale struct {
	*world
	text                  strings.Builder
	stop, counts, outside string
}

func (t *tale) line(format string, args ...any) {
	fmt.Fprintf(&t.text, "%2d:%02d  %s\n", int(t.now.Minutes()), int(t.now.Seconds())%60, fmt.Sprintf(format, args...))
}

// step writes the lines of one round of the manager.
func (t *tale) step() {
	for _, n := range t.changes {
		t.line("%s", n)
	}
	t.changes = nil
	before := t.targets()
	r, _ := t.round()
	names := map[string][]string{}
	var order []string
	note := func(what, name string) {
		if names[what] == nil {
			order = append(order, what)
		}
		names[what] = append(names[what], name)
	}
	for i, s := range r.Steps {
		x := &before[i]
		switch {
		case s.Create && s.Move:
			note("create", x.Name)
		case s.Create:
			note("create, not promoted ("+s.Reason+")", x.Name)
		case s.Move && x.Current != x.Desired:
			note("promote ("+s.Reason+")", x.Name)
		case s.Stage && x.Staged != x.Desired:
			note("stage ("+s.Reason+")", x.Name)
		}
	}
	for _, what := range order {
		list := names[what]
		if r.Batch > 0 && strings.HasPrefix(what, "create") && len(list) > r.Batch {
			for part := range slices.Chunk(list, r.Batch) {
				t.line("%s: %s", what, strings.Join(part, " "))
			}
			continue
		}
		t.line("%s: %s", what, strings.Join(list, " "))
	}
	r = Count(t.shape, t.targets())
	if counts := t.count(&r); counts != t.counts {
		t.counts = counts
		t.line("%s", counts)
	}
	if text := OutsideText(r.Outside); text != t.outside {
		t.outside = text
		t.line("%s", text)
	}
	if stop := r.Stop.String(); stop != t.stop {
		if t.stop = stop; stop == "" {
			stop = "nobody waits"
		}
		t.line("%s", stop)
	}
}

func (t *tale) count(r *Result) string {
	current, there := 0, 0
	for _, x := range t.targets() {
		if x.Current == x.Desired {
			current++
		}
		if x.IsSettled() && x.Ready {
			there++
		}
	}
	text := fmt.Sprintf("   %d promoted, %d there, %d unavailable", current, there, r.Unavailable)
	if r.Deferred > 0 {
		text += fmt.Sprintf(", %d deferred (%d promoted)", r.Deferred, r.Blind)
	}
	return text
}

// An event is what happens from outside, and when.
type event struct {
	at   time.Duration
	what string
	do   func()
}

// report plays a world for a time, and returns the trace.
func (w *world) report(long, tick time.Duration, events ...event) string {
	t := &tale{world: w}
	for ; t.now <= long; t.pass(tick) {
		for len(events) > 0 && events[0].at <= t.now {
			t.line("--- %s", events[0].what)
			events[0].do()
			events = events[1:]
		}
		t.step()
	}
	return t.text.String()
}
