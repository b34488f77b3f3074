package clusterimport

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LabelCanary on a Cluster, "true", makes it one of the first clusters that get new terms.
const LabelCanary = "fleet.cattle.io/import-canary"

// A Pace says how fast clusters get new terms.
type Pace struct {
	Canaries  int           // that have to register before the others get the terms
	InFlight  int           // notified and not registered yet, at once
	PerMinute int           // notified within a minute
	Timeout   time.Duration // after which a notified cluster should have registered
}

// DefaultPace notifies 5,000 clusters within an hour and a half.
var DefaultPace = Pace{Canaries: 3, InFlight: 20, PerMinute: 60, Timeout: 5 * time.Minute}

// A Candidate is a Cluster whose agent the manager has installed, and the state of its
// terms.
type Candidate struct {
	Name   string // "<workspace>/<name>"
	Target string // digest of the terms that it is to have
	Canary bool   // it has LabelCanary
	Online bool   // its agent checks in
	Paused bool   // it is left alone
	Failed bool   // the last try to notify it did not get through

	Due       bool      // it has other terms
	Running   bool      // it may go, and is not notified yet
	Reported  time.Time // when it was notified; zero: so long ago that no time is recorded
	Arrived   bool      // it has registered since
	WasOnline bool      // its agent checked in before it was notified
}

// A Turn says whether a Candidate that is due may go, and why.
type Turn struct {
	Go     bool
	Reason string
}

// A Schedule is the turns of all that are due, and when to look again.
type Schedule struct {
	Turns map[string]Turn
	// Halted says for each target why no cluster gets it for now, in words. It holds only
	// targets that wait for a user.
	Halted map[string]string
	After  time.Duration // 0: only when something changes
}

// Plan decides which clusters get new terms next: how agents reach the manager from now on.
//
// For each target the canaries go first: the clusters with the label, else the first few;
// of these the agents that check in go before those that do not. The others follow, at a
// bounded rate, when the canaries have registered. Plan notifies no further cluster if a
// canary that checked in before does not register in time, or later if more than one
// cluster does not: the terms are probably wrong. A paused cluster is left out, and an
// unreachable one does not delay the others.
func Plan(all []Candidate, now time.Time, p Pace) Schedule {
	s := Schedule{Turns: map[string]Turn{}, Halted: map[string]string{}}
	targets := map[string]*notification{}
	for _, c := range all {
		if c.Paused {
			if c.Due {
				s.Turns[c.Name] = Turn{Reason: "paused"}
			}
			continue
		}
		t := targets[c.Target]
		if t == nil {
			t = &notification{pace: p, now: now}
			targets[c.Target] = t
		}
		t.addCandidate(c)
	}
	for target, t := range targets {
		if reason := t.planTurns(s.Turns); reason != "" {
			s.Halted[target] = reason
		}
		if t.next > 0 && (s.After == 0 || t.next < s.After) {
			s.After = t.next
		}
	}
	return s
}

// A notification is the clusters of one target.
type notification struct {
	pace Pace
	now  time.Time
	next time.Duration // when to look again

	size    int
	due     []Candidate
	flying  []Candidate // notified or about to be, and not registered yet
	arrived []Candidate // registered, and checking in
	failed  []string    // checked in before they were notified, and not registered in time
	recent  int         // notified within the last minute
}

// addCandidate sorts one cluster in.
func (n *notification) addCandidate(c Candidate) {
	n.size++
	if !c.Reported.IsZero() {
		if ago := n.now.Sub(c.Reported); ago < time.Minute {
			n.recent++
			n.recheckAfter(time.Minute - ago)
		}
	}
	late := !c.Reported.IsZero() && n.now.Sub(c.Reported) >= n.pace.Timeout
	switch {
	case c.Due && c.Running && !c.Failed:
		n.flying = append(n.flying, c)
	case c.Due:
		n.due = append(n.due, c)
	case c.Arrived && c.Online:
		n.arrived = append(n.arrived, c)
	case c.Arrived, c.Reported.IsZero():
	case late && c.WasOnline:
		n.failed = append(n.failed, c.Name)
	case late: // perhaps it is switched off
	default:
		n.flying = append(n.flying, c)
		n.recheckAfter(n.pace.Timeout - n.now.Sub(c.Reported))
	}
}

func (n *notification) recheckAfter(after time.Duration) {
	if after = max(after, time.Second); n.next == 0 || after < n.next {
		n.next = after
	}
}

// planTurns writes the turns of those that are due, and returns why they wait for a
// person, if they do.
func (n *notification) planTurns(turns map[string]Turn) string {
	for _, c := range n.flying {
		if c.Due {
			turns[c.Name] = Turn{Go: true, Reason: "has its turn"}
		}
	}
	if len(n.due) == 0 {
		return ""
	}
	slices.SortFunc(n.due, compareCandidates)
	canaries, waits := n.canaries()
	slots, why := n.freeSlots(), "waits for its turn"
	halted := ""
	switch {
	case waits != "" && len(n.failed) > 0, len(n.failed) > 1:
		slices.Sort(n.failed)
		halted = "halted: " + firstNames(n.failed) + " did not register with what they were told; correct it, " +
			"or raise redeployAgentGeneration of these, or pause them"
		slots, why = 0, halted
	case waits != "":
		why = waits
	default:
		canaries = nil
	}
	for _, c := range n.due {
		turn := Turn{Reason: why}
		switch {
		case halted != "":
		case c.Failed: // it has had its turn, and takes no slot
			turn = Turn{Go: true, Reason: "tried again"}
		case canaries != nil && !canaries[c.Name]:
		case canaries == nil && slots == 0:
		default:
			turn = Turn{Go: true, Reason: map[bool]string{true: "goes first", false: "has its turn"}[canaries != nil]}
			slots--
		}
		turns[c.Name] = turn
	}
	return halted
}

// freeSlots returns how many more clusters may be notified now.
func (n *notification) freeSlots() int {
	running := 0
	for _, c := range n.flying {
		if c.Running {
			running++ // will count among the recent ones
		}
	}
	return max(0, min(n.pace.InFlight-len(n.flying), n.pace.PerMinute-n.recent-running))
}

// canaries are those that may go before the others, and for what the others
// wait; empty if they need not wait any more.
func (n *notification) canaries() (first map[string]bool, waits string) {
	first = map[string]bool{}
	var pending []string // labeled ones that are on their way
	labelled := false
	for _, c := range n.flying {
		if c.Canary {
			labelled, pending = true, append(pending, c.Name)
		}
	}
	for _, c := range n.arrived {
		labelled = labelled || c.Canary
	}
	for _, c := range n.due {
		if c.Canary && !c.Failed {
			labelled, first[c.Name], pending = true, true, append(pending, c.Name)
		}
	}
	if labelled {
		if len(pending) == 0 {
			return nil, ""
		}
		slices.Sort(pending)
		return first, "waits for " + firstNames(pending) + " to register"
	}
	want := min(n.pace.Canaries, n.size)
	if len(n.arrived) >= want {
		return nil, ""
	}
	left := want - len(n.arrived) - len(n.flying)
	for _, c := range n.due {
		if left > 0 && !c.Failed {
			first[c.Name], left = true, left-1
		}
	}
	return first, fmt.Sprintf("waits until the first %d have registered", want)
}

// compareCandidates orders those that are due: agents that check in first, then by name.
func compareCandidates(a, b Candidate) int {
	if a.Online != b.Online {
		if a.Online {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

// firstNames names the first three of some.
func firstNames(names []string) string {
	const enough = 3
	if len(names) <= enough {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:enough], ", ") + fmt.Sprintf(" and %d more", len(names)-enough)
}
