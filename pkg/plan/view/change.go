package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Changes returns what a user wants to know between two looks at a fleet, apart from the
// lines of EventLines: what has begun to need attention and what no longer does, which clusters
// went away and came back, and what was paused and resumed.
func Changes(before, after StatusSnapshot, now time.Time) []EventLine {
	was, is := before.lastSeen, after.lastSeen
	var lines []EventLine
	for _, a := range after.Status.Attention {
		if !slices.ContainsFunc(before.Status.Attention, a.sameTrouble) {
			lines = append(lines, EventLine{"needs", a.text()})
		}
	}
	for _, a := range before.Status.Attention {
		if !slices.ContainsFunc(after.Status.Attention, a.sameTrouble) {
			lines = append(lines, EventLine{"solved", a.text()})
		}
	}
	for _, name := range sortedNames(is) {
		if _, ok := was[name]; !ok {
			lines = append(lines, EventLine{"away", fmt.Sprintf("%s: last seen %s", withoutWorkspace(name), Clock(is[name], now))})
		}
	}
	for _, name := range sortedNames(was) {
		if _, ok := is[name]; !ok {
			lines = append(lines, EventLine{"back", withoutWorkspace(name)})
		}
	}
	return append(lines, pauseChanges(before.Status.Paused, after.Status.Paused)...)
}

// pauseChanges returns a line for each object that users have paused or resumed.
func pauseChanges(was, is []PausedObject) []EventLine {
	same := func(a PausedObject) func(PausedObject) bool {
		return func(b PausedObject) bool { return a.Kind == b.Kind && a.Name == b.Name }
	}
	var lines []EventLine
	for _, p := range is {
		if !slices.ContainsFunc(was, same(p)) {
			lines = append(lines, EventLine{"pause", p.Label() + strings.TrimPrefix(p.Text(time.Time{}), "paused")})
		}
	}
	for _, p := range was {
		if !slices.ContainsFunc(is, same(p)) {
			lines = append(lines, EventLine{"resume", p.Label()})
		}
	}
	return lines
}

// A StatusSnapshot is a Status and what is needed besides to compare it with another.
type StatusSnapshot struct {
	Status   Status
	lastSeen map[string]time.Time // when clusters that are away were last seen
}

// NewSnapshot returns the StatusSnapshot of a fleet.
func NewSnapshot(f Fleet, m Manager, now time.Time) StatusSnapshot {
	g := StatusSnapshot{Status: Summarize(f, m, now), lastSeen: map[string]time.Time{}}
	for _, c := range f.Clusters {
		if ClusterState(c) == fleet.Offline {
			g.lastSeen[keyOf(c).String()] = c.Status.Agent.LastSeen.Time
		}
	}
	return g
}

// sameTrouble reports whether two rows are about the same trouble of the same object.
func (a Attention) sameTrouble(b Attention) bool {
	return a.State == b.State && a.Kind == b.Kind && a.Name == b.Name && a.Message == b.Message
}

// text is a row in one line.
func (a Attention) text() string {
	text := string(a.State) + " " + a.Label()
	if names := a.Clusters.Text(); names != "" && a.Kind != "Cluster" {
		text += " on " + names
	}
	if a.Message != "" {
		text += ": " + a.Message
	}
	return text
}

// Label returns what a row is about: the name, with the kind before it where it is not a
// bundle.
func (a Attention) Label() string {
	switch a.Kind {
	case "GitRepo":
		return "repo " + withoutWorkspace(a.Name)
	case "HelmOp":
		return "helmop " + withoutWorkspace(a.Name)
	case "Cluster":
		return "cluster " + withoutWorkspace(a.Name)
	case "Workspace":
		return "workspace " + withoutWorkspace(a.Name)
	case "Manager":
		return "manager"
	}
	return withoutWorkspace(a.Name)
}

// Label returns what a row is about, as for Attention.
func (m Moving) Label() string { return Attention{Kind: m.Kind, Name: m.Name}.Label() }

// Text returns the first cluster of a sample and how many more there are, or the number
// alone where none is named.
func (s Sample) Text() string {
	switch {
	case s.Count == 0:
		return ""
	case len(s.Sample) == 0:
		return countText(s.Count)
	case s.Count == 1:
		return withoutWorkspace(s.Sample[0])
	case s.Count == 2 && len(s.Sample) == 2:
		return withoutWorkspace(s.Sample[0]) + ", " + withoutWorkspace(s.Sample[1])
	}
	return fmt.Sprintf("%s and %d more", withoutWorkspace(s.Sample[0]), s.Count-1)
}

// withoutWorkspace is a name without its workspace.
func withoutWorkspace(name string) string {
	return name[strings.LastIndex(name, "/")+1:]
}

func sortedNames(m map[string]time.Time) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
