package clusterimport

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var slow = Pace{Canaries: 2, InFlight: 3, PerMinute: 4, Timeout: 5 * time.Minute}

func due(name string) Candidate { return Candidate{Name: name, Target: "t", Due: true, Online: true} }

func reported(name string, ago time.Duration) Candidate {
	return Candidate{Name: name, Target: "t", Online: true, WasOnline: true, Reported: start.Add(-ago)}
}

func arrived(name string) Candidate {
	c := reported(name, 10*time.Minute)
	c.Arrived = true
	return c
}

func with(c Candidate, change func(*Candidate)) Candidate { change(&c); return c }

func TestPlan(t *testing.T) {
	offline := func(c *Candidate) { c.Online, c.WasOnline = false, false }
	canary := func(c *Candidate) { c.Canary = true }
	cases := map[string]struct {
		why    string
		all    []Candidate
		goes   string // names, with blanks
		reason string // of the first that waits
		halted bool
	}{
		"Nothing":    {why: "no cluster is due", all: []Candidate{arrived("a")}},
		"FirstFew":   {why: "two go first", all: []Candidate{due("a"), due("b"), due("c")}, goes: "a b", reason: "until the first 2"},
		"Alone":      {why: "there is no other to go first", all: []Candidate{due("a")}, goes: "a"},
		"OnTheirWay": {why: "they have time", all: []Candidate{reported("a", time.Second), reported("b", time.Second), due("c")}, reason: "until the first 2"},
		"OneArrived": {why: "the other one has time", all: []Candidate{arrived("a"), reported("b", time.Second), due("c")}, reason: "until the first 2"},
		"Proven":     {why: "both have registered", all: []Candidate{arrived("a"), arrived("b"), due("c"), due("d")}, goes: "c d"},
		"BoundInFlight": {
			why: "no more than three at once", all: []Candidate{arrived("a"), arrived("b"), reported("c", 2*time.Minute), due("d"), due("e"), due("f")},
			goes: "d e", reason: "its turn",
		},
		"BoundPerMinute": {
			why:  "no more than four a minute, however fast they register",
			all:  []Candidate{with(reported("a", time.Second), func(c *Candidate) { c.Arrived = true }), with(reported("b", time.Second), func(c *Candidate) { c.Arrived = true }), with(reported("c", time.Second), func(c *Candidate) { c.Arrived = true }), due("d"), due("e")},
			goes: "d", reason: "its turn",
		},
		"OnlineFirst":    {why: "one that does not check in proves nothing", all: []Candidate{with(due("a"), offline), due("b"), due("c")}, goes: "b c", reason: "until the first 2"},
		"AllOffline":     {why: "the old address is gone: one of them has to begin", all: []Candidate{with(due("a"), offline), with(due("b"), offline), with(due("c"), offline)}, goes: "a b", reason: "until the first 2"},
		"OfflineSilent":  {why: "a cluster that is switched off stops no other: the next one takes its place", all: []Candidate{arrived("z"), with(reported("a", 6*time.Minute), offline), due("b"), due("c")}, goes: "b", reason: "until the first 2"},
		"CanaryFailed":   {why: "the address that it got is probably wrong", all: []Candidate{reported("a", 6*time.Minute), arrived("b"), due("c")}, reason: "halted: a did not register", halted: true},
		"OneFailedLater": {why: "one alone may have its own reason", all: []Candidate{reported("a", 6*time.Minute), arrived("b"), arrived("d"), due("c")}, goes: "c"},
		"TwoFailedLater": {why: "two have the same one", all: []Candidate{reported("a", 6*time.Minute), reported("e", 6*time.Minute), arrived("b"), arrived("d"), due("c")}, reason: "halted: a, e", halted: true},
		"PausedFailed":   {why: "a person has taken it out of the way", all: []Candidate{with(reported("a", 6*time.Minute), func(c *Candidate) { c.Paused = true }), arrived("b"), arrived("d"), due("c")}, goes: "c"},
		"Paused":         {why: "it is left alone", all: []Candidate{with(due("a"), func(c *Candidate) { c.Paused = true })}, reason: "paused"},
		"Labelled":       {why: "a person has chosen", all: []Candidate{due("a"), with(due("b"), canary), with(due("c"), canary)}, goes: "b c", reason: "waits for b, c to register"},
		"LabelledFlying": {why: "all of them have to register", all: []Candidate{due("a"), with(reported("b", time.Second), canary), with(arrived("c"), canary)}, reason: "waits for b"},
		"LabelledThere":  {why: "all of them have", all: []Candidate{due("a"), with(arrived("c"), canary)}, goes: "a"},
		"LabelledUnreachable": {
			why: "one that cannot be reached holds up no other: others go first", all: []Candidate{due("a"), with(due("b"), func(c *Candidate) { c.Canary, c.Failed = true, true }), due("d"), due("e")},
			goes: "a b d", reason: "until the first 2",
		},
		"Unreachable": {
			why: "it is tried again, and takes no place", all: []Candidate{with(due("a"), func(c *Candidate) { c.Failed = true }), due("b"), due("c"), due("d")},
			goes: "a b c", reason: "until the first 2",
		},
		"Running":      {why: "it has its turn already", all: []Candidate{with(due("a"), func(c *Candidate) { c.Running = true }), due("b"), due("c")}, goes: "a b", reason: "until the first 2"},
		"OtherTargets": {why: "one address proves nothing about another", all: []Candidate{arrived("a"), arrived("b"), with(due("c"), func(c *Candidate) { c.Target = "u" }), with(due("d"), func(c *Candidate) { c.Target = "u" }), with(due("e"), func(c *Candidate) { c.Target = "u" })}, goes: "c d", reason: "until"},
		"TakenOver":    {why: "the time of an import by the reference is unknown", all: []Candidate{{Name: "a", Target: "t", Online: true, Arrived: true}, {Name: "b", Target: "t", Arrived: true}, due("c")}, goes: "c"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Plan(c.all, start, slow)
			var goes []string
			reason := ""
			for _, one := range c.all {
				turn, ok := s.Turns[one.Name]
				if ok != one.Due {
					t.Errorf("%s: turn of %s: %t", c.why, one.Name, ok)
				}
				switch {
				case turn.Go:
					goes = append(goes, one.Name)
				case ok && reason == "":
					reason = turn.Reason
				}
			}
			slices.Sort(goes)
			if got := strings.Join(goes, " "); got != c.goes {
				t.Errorf("%s: want %q to go, got %q", c.why, c.goes, got)
			}
			if !strings.Contains(reason, c.reason) || c.reason == "" && reason != "" {
				t.Errorf("%s: waits because %q", c.why, reason)
			}
			if (len(s.Halted) > 0) != c.halted {
				t.Errorf("%s: halted: %v", c.why, s.Halted)
			}
		})
	}
}

// A new address is given to a fleet: never to all agents at once, to the canaries
// first, to all of them in the end, and a wrong address to a few only.
func TestFleet(t *testing.T) {
	for name, c := range map[string]struct {
		fleet   int
		offline int // of them, all the time
		broken  bool
		most    int // agents that have the new address in the end
		within  time.Duration
	}{
		"Right":       {fleet: 200, most: 200, within: 10 * time.Minute},
		"SomeOffline": {fleet: 200, offline: 40, most: 200, within: 25 * time.Minute},
		"Wrong":       {fleet: 200, broken: true, most: 3, within: time.Hour},
		"WrongAndOff": {fleet: 50, offline: 50, broken: true, most: 50, within: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]Candidate, c.fleet)
			for i := range all {
				all[i] = due(fmt.Sprintf("c%03d", i))
				all[i].Online = i >= c.offline
			}
			now, said := start, 0
			for ; now.Before(start.Add(c.within)); now = now.Add(5 * time.Second) {
				said = play(t, all, now, c.broken)
			}
			if said != c.most {
				t.Errorf("%d agents have it after %v, want %d", said, c.within, c.most)
			}
		})
	}
}

// play gives the new address to the agents whose turn it is; each of them
// registers 10 seconds later.
func play(t *testing.T, all []Candidate, now time.Time, broken bool) (said int) {
	t.Helper()
	s := Plan(all, now, DefaultPace)
	flying, minute := 0, 0
	for i := range all {
		c := &all[i]
		if s.Turns[c.Name].Go {
			c.Due, c.Reported, c.WasOnline = false, now, c.Online
		}
		if c.Due {
			continue
		}
		said++
		if c.Online && !broken && now.Sub(c.Reported) >= 10*time.Second {
			c.Arrived = true
		}
		if !c.Arrived && now.Sub(c.Reported) < DefaultPace.Timeout {
			flying++
		}
		if now.Sub(c.Reported) < time.Minute {
			minute++
		}
	}
	if flying > DefaultPace.InFlight || minute > DefaultPace.PerMinute {
		t.Fatalf("%d on their way at once, %d within a minute", flying, minute)
	}
	return said
}
