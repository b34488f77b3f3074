package agentrollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ConfigMapName is the ConfigMap, in the manager's namespace, with the state of
// the agents (written by the manager) and an order about them (written by
// people).
const ConfigMapName = "fleet-agents"

// Keys of that ConfigMap.
const (
	KeyState = "state"
	KeyOrder = "order"
)

// An Order calls an image back: agents that run it return to another image, and no agent
// gets it. The order holds while the manager wants that image.
type Order struct {
	Image  string    `json:"image"`
	To     string    `json:"to"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Affects reports whether an order is about a Build.
func (o Order) Affects(b Build) bool { return o.Image != "" && o.To != "" && o.Image == b.Image }

// String returns the order as it stands in the ConfigMap.
func (o Order) String() string {
	text, err := json.Marshal(o)
	if err != nil { // these types always can be
		return ""
	}
	return string(text)
}

// ParseOrder reads what String returns. For any other text it returns the zero Order.
func ParseOrder(s string) Order {
	var o Order
	if json.Unmarshal([]byte(s), &o) != nil {
		return Order{}
	}
	return o
}

// A Phase is how far the agents of a fleet are.
type Phase string

// Phases.
const (
	Current  Phase = "Current"  // all have what they should have, or will when they are back
	Rolling  Phase = "Rolling"  // a wave is under way
	Halted   Phase = "Halted"   // more than one agent has failed
	Returned Phase = "Returned" // a person has called the image back
)

// A Failure is an agent that was moved and does not work.
type Failure struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// A State is how far the agents of a fleet are, for people. It holds no times, so
// that it changes only when something happens.
type State struct {
	Phase    Phase  `json:"phase"`
	Image    string `json:"image"`              // that agents should have
	From     string `json:"from,omitempty"`     // that the ones had which were moved last
	Agents   int    `json:"agents"`             // all
	UpToDate int    `json:"current"`            // that have what they should have
	Wave     int    `json:"wave,omitempty"`     // that are waited for
	Offline  int    `json:"offline,omitempty"`  // that get theirs when they are back
	Held     int    `json:"held,omitempty"`     // that get theirs when changes are let through
	Waits    string `json:"waitsFor,omitempty"` // names, at most 10
	// Failed are the agents that are not well, at most 10, and FailedCount all.
	Failed      []Failure `json:"failed,omitempty"`
	FailedCount int       `json:"failedCount,omitempty"`
	Message     string    `json:"message"`
}

// String returns the state as it stands in the ConfigMap.
func (s State) String() string {
	text, err := json.Marshal(s)
	if err != nil { // these types always can be
		return ""
	}
	return string(text)
}

// ParseState reads what String returns.
func ParseState(s string) (State, error) {
	var out State
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return State{}, fmt.Errorf("read the state of the agents: %w", err)
	}
	return out, nil
}

// fillState fills in the State that users see.
func (r *rollout) fillState(members []Member) {
	s := State{Image: r.goal.Image, Agents: len(members), Wave: len(r.wave), FailedCount: len(r.bad), Failed: firstNames(r.bad)}
	if r.back != nil {
		s.Image = r.back.To
	}
	from := map[string]int{}
	for _, m := range members {
		behind := m.Has != r.desiredBuild(m)
		switch {
		case !behind && (m.Move == nil || m.Move.Settled || slices.Contains(r.plan.Settle, m.Key)):
			s.UpToDate++
		case behind && m.Held != "":
			s.Held++
		case behind && m.Joined && !m.Online:
			s.Offline++
		}
		if m.Move != nil && m.Move.Image == s.Image && m.Move.From != s.Image {
			from[m.Move.From]++
		}
	}
	s.From = mostFrequent(from)
	var names []string
	for _, m := range r.wave {
		names = append(names, m.Key)
	}
	s.Waits = strings.Join(firstNames(names), ", ")
	s.Phase, s.Message = r.phase(s)
	r.plan.State = s
}

// mostFrequent is the word that was counted most often, and of several the last in
// their order; empty where none was.
func mostFrequent(counted map[string]int) string {
	var out string
	for word, n := range counted {
		if n > counted[out] || n == counted[out] && word > out {
			out = word
		}
	}
	return out
}

// phase is the phase, with its reason in words.
func (r *rollout) phase(s State) (Phase, string) {
	switch {
	case r.back != nil:
		return Returned, fmt.Sprintf("%s was called back by %s: agents return to %s", r.back.Image, orElse(r.back.By, "a person"), r.back.To)
	case len(r.bad) > 1:
		return Halted, fmt.Sprintf("%d agents are not well since they were updated: %s; no further agent is updated",
			len(r.bad), strings.Join(clusters(firstNames(r.bad)), ", "))
	case len(r.wave) > 0:
		return Rolling, fmt.Sprintf("%d of %d agents are up to date, waiting for %s", s.UpToDate, s.Agents, s.Waits)
	case s.Offline+s.Held > 0:
		return Current, fmt.Sprintf("%d of %d agents are up to date; %d offline and %d held back get theirs later", s.UpToDate, s.Agents, s.Offline, s.Held)
	case len(r.bad) == 1:
		return Current, fmt.Sprintf("all agents but %s were updated, which is not well: %s", r.bad[0].Cluster, r.bad[0].Reason)
	}
	return Current, fmt.Sprintf("all %d agents are up to date", s.Agents)
}

func clusters(list []Failure) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Cluster)
	}
	return out
}

// firstNames is a list, cut to what people read.
func firstNames[T any](list []T) []T { return list[:min(len(list), listLength)] }
