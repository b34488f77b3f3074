package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A Selection picks objects by their state. The zero Selection picks all.
type Selection struct {
	States   []fleet.BundleState // any of these; empty: all
	NotReady bool                // all but Ready
}

// Has reports whether a state is picked.
func (s Selection) Has(state fleet.BundleState) bool {
	if s.NotReady && state == fleet.Ready {
		return false
	}
	return len(s.States) == 0 || slices.Contains(s.States, state)
}

// HasPaused reports whether what is paused is picked, whatever its state is.
func (s Selection) HasPaused() bool { return slices.Contains(s.States, Paused) }

// Any reports whether everything is picked.
func (s Selection) Any() bool { return !s.NotReady && len(s.States) == 0 }

// String says what is picked, to be put behind a noun.
func (s Selection) String() string {
	switch {
	case len(s.States) > 0:
		words := make([]string, len(s.States))
		for i, state := range s.States {
			words[i] = string(state)
		}
		return "in state " + strings.Join(words, ",")
	case s.NotReady:
		return "that are not Ready"
	}
	return ""
}

// stateWords are all states that an object may be in.
func stateWords() []string {
	var out []string
	for _, s := range fleet.States {
		out = append(out, string(s))
	}
	return append(out, fleet.Offline, fleet.WaitCheckIn, fleet.GitUpdating, string(Unreadable), string(Held), string(Paused))
}

// StateNames returns all states that an object may be in.
func StateNames() []string { return stateWords() }

// nearestState is the state that was most likely meant by a text, in letters of any case;
// empty where none is near.
func nearestState(text string, known []string) string {
	lower := map[string]string{}
	for _, w := range known {
		lower[strings.ToLower(w)] = w
	}
	return lower[spelling.Nearest(strings.ToLower(text), slices.Collect(maps.Keys(lower)))]
}

// ParseStates reads states divided by commas, in any case. A word that is no
// state is an error that names the nearest one.
func ParseStates(list []string) ([]fleet.BundleState, error) {
	var out []fleet.BundleState
	known := stateWords()
	for _, text := range list {
		i := slices.IndexFunc(known, func(w string) bool { return strings.EqualFold(w, text) })
		if i >= 0 {
			out = append(out, fleet.BundleState(known[i]))
			continue
		}
		if near := nearestState(text, known); near != "" {
			return nil, fmt.Errorf("no state %q; did you mean %s?", text, near)
		}
		return nil, fmt.Errorf("no state %q; there are %s", text, strings.Join(known, ", "))
	}
	return out, nil
}
