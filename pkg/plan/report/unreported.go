package report

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Note returns the memory of conditions that the agent cannot report, after it found them
// again. Each condition has the times at which it came about. kept is the memory so far;
// for what is not in it, known is what the agent reported last.
//
// blind says that neither is known: an agent that has just started without its manager does
// not know since when a condition has held. Those conditions get no times until they
// change.
func Note(kept, known, found []fleet.Condition, now time.Time, blind bool) []fleet.Condition {
	stamp := now.UTC().Format(time.RFC3339)
	out := make([]fleet.Condition, 0, len(found))
	for _, c := range found {
		before := condition.Find(kept, c.Type)
		if before == nil {
			before = condition.Find(known, c.Type)
		}
		changed, updated := stamp, stamp
		switch {
		case before == nil && blind:
			changed, updated = "", ""
		case before != nil && before.Status == c.Status:
			changed = before.LastTransitionTime
			if before.Reason == c.Reason && before.Message == c.Message {
				updated = before.LastUpdateTime
			}
		}
		c.LastTransitionTime, c.LastUpdateTime = changed, updated
		out = append(out, c)
	}
	return out
}

// Unreported returns the conditions of a memory that the manager does not know and that
// have a time: what has to survive a restart of the agent. It is nil if there are none.
func Unreported(kept, known []fleet.Condition) []fleet.Condition {
	var out []fleet.Condition
	for _, c := range kept {
		k := condition.Find(known, c.Type)
		if timed := c.LastTransitionTime != "" || c.LastUpdateTime != ""; timed && (k == nil || *k != c) {
			out = append(out, c)
		}
	}
	return out
}

// Backdate gives the conditions of a status that is about to be reported the times at which
// they came about. kept is the memory of the time in which the agent could not report,
// known is what it reported last. Backdate does not change found.
func Backdate(found, known, kept []fleet.Condition, now time.Time) []fleet.Condition {
	if len(kept) == 0 {
		return found
	}
	out := slices.Clone(found)
	for i := range out {
		c := &out[i]
		m := condition.Find(kept, c.Type)
		if m == nil {
			continue
		}
		reported := ""
		if k := condition.Find(known, c.Type); k != nil {
			reported = k.LastTransitionTime
		}
		// Both are RFC 3339 in UTC. A memory that is not younger than what the
		// manager knows is left over from another time.
		young := m.LastTransitionTime > reported
		switch {
		case m.Status != c.Status && (young || m.LastTransitionTime == ""):
			stamp := now.UTC().Format(time.RFC3339) // it was otherwise in between
			c.LastTransitionTime, c.LastUpdateTime = stamp, stamp
		case m.Status == c.Status && young:
			c.LastTransitionTime = m.LastTransitionTime
		}
		if m.Status == c.Status && m.Reason == c.Reason && m.Message == c.Message && m.LastUpdateTime > reported && c.ObservedGeneration == m.ObservedGeneration {
			c.LastUpdateTime = m.LastUpdateTime
		}
	}
	return out
}
