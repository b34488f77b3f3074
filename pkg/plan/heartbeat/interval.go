// Package heartbeat decides when agents check in with their manager, how often a fleet
// of a size may do so, and when a check-in counts as missed. Package controllers/bundle
// sets a Cluster to Offline by it.
package heartbeat

import (
	"fmt"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits of the time between two check-ins of an agent.
const (
	Shortest = time.Second
	Longest  = time.Hour
)

// Usual is that time in a fleet of up to 6,000 clusters, and for an agent for which the
// manager has set no interval.
const Usual = time.Minute

// Missed is how many check-ins an agent may miss in a row.
const Missed = 3

// perSecond is how many check-ins a manager sees at most, where it chooses.
const perSecond = 100

// Auto is the text that leaves the choice to the manager.
const Auto = "auto"

// steps are the times that a manager chooses among. Every change goes to all agents, so
// there are few steps, each at most a third above the one before.
var steps = []time.Duration{
	Usual, 75 * time.Second, 90 * time.Second, 2 * time.Minute, 150 * time.Second, 3 * time.Minute, 4 * time.Minute,
	5 * time.Minute, 6 * time.Minute, 8 * time.Minute, 10 * time.Minute, 12 * time.Minute, 15 * time.Minute,
	20 * time.Minute, 25 * time.Minute, 30 * time.Minute, 40 * time.Minute, 50 * time.Minute, Longest,
}

// Choose returns the time between two check-ins of one agent in a fleet with that many
// agents that check in: the shortest step that gives at most 100 check-ins a second, and
// never more than an hour. now is the present step, 0 for none. Choose keeps it if it is
// only one step longer than necessary, so that a cluster that comes and goes does not
// change all others.
func Choose(agents int, now time.Duration) time.Duration {
	least := time.Duration(agents) * time.Second / perSecond
	for i, s := range steps {
		switch {
		case s < least:
		case i+1 < len(steps) && now == steps[i+1]:
			return now
		default:
			return s
		}
	}
	return Longest
}

// ParseInterval reads a time between two check-ins, 1 s to 1 h. It is 0 for
// "auto", for an empty text, and for 0: the manager chooses.
func ParseInterval(text string) (time.Duration, error) {
	if text == "" || text == Auto {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d != 0 && (d < Shortest || d > Longest) {
		return 0, fmt.Errorf("%q is neither %s nor a duration from %s to %s", text, Auto, FormatInterval(Shortest), FormatInterval(Longest))
	}
	return d, nil
}

// FormatInterval returns what ParseInterval reads, without units that are 0: 1m, not 1m0s;
// auto for 0.
func FormatInterval(d time.Duration) string {
	if d == 0 {
		return Auto
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Report returns the Cluster with the check-in interval of its agent set. It returns c
// itself where that is already set, or where the interval is 0.
func Report(c *fleet.Cluster, interval time.Duration) *fleet.Cluster {
	text := FormatInterval(interval)
	if interval == 0 || c.Annotations[fleet.AnnotationCheckInInterval] == text {
		return c
	}
	out := c.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[fleet.AnnotationCheckInInterval] = text
	return out
}

// Reported returns the longest check-in interval that is set for some clusters, or 0 where
// none is set.
func Reported(clusters []*fleet.Cluster) time.Duration {
	longest := time.Duration(0)
	for _, c := range clusters {
		if d, err := ParseInterval(c.Annotations[fleet.AnnotationCheckInInterval]); err == nil {
			longest = max(longest, d)
		}
	}
	return longest
}

// Connected returns how many clusters have agents that check in all the time, and not at
// the times of a schedule.
func Connected(clusters []*fleet.Cluster) int {
	n := 0
	for _, c := range clusters {
		if !Polls(c) {
			n++
		}
	}
	return n
}
