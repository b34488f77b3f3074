package drift

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The first few corrections of an object come at once. Further ones that follow closely
// come slower and slower, because another writer works against them.
const (
	free      = 3 // come at once
	firstWait = 5 * time.Second
	lastWait  = 5 * time.Minute
	calm      = 10 * time.Minute // after which the count starts from zero
)

// A CorrectionHistory is the history of corrections of one object. The zero value is that of
// an object that was never corrected.
type CorrectionHistory struct {
	count     int
	first     time.Time
	last      time.Time
	object    string   // field and object, for people
	managers  []string // managers
	contested bool     // it was changed back in spite of several corrections
}

// IsOver reports whether the last correction is so long ago that the count starts from
// zero.
func (c *CorrectionHistory) IsOver(now time.Time) bool { return now.Sub(c.last) >= calm }

// Rest returns how long after now the fight is over.
func (c *CorrectionHistory) Rest(now time.Time) time.Duration { return c.last.Add(calm).Sub(now) }

// IsContested reports whether the object was changed back again and again.
func (c *CorrectionHistory) IsContested() bool { return c.contested }

// Wait returns how long the next correction has to wait; 0: it may come now.
func (c *CorrectionHistory) Wait(now time.Time) time.Duration {
	return max(c.nextCorrection().Sub(now), 0)
}

// nextCorrection is when the next correction may come.
func (c *CorrectionHistory) nextCorrection() time.Time {
	if c.count < free {
		return time.Time{}
	}
	wait := firstWait
	for range c.count - free {
		wait = min(2*wait, lastWait)
	}
	return c.last.Add(wait)
}

// Found notes that the object differs.
func (c *CorrectionHistory) Found(m fleet.ModifiedStatus) {
	c.contested = c.contested || c.count >= free
	c.object = strings.TrimSuffix(m.Kind+" "+m.Namespace+"/", "/") + "/" + m.Name
	if m.Namespace == "" {
		c.object = m.Kind + " " + m.Name
	}
	if len(m.Changes) > 0 {
		c.object = m.Changes[0].Field + " of " + c.object
	}
	for _, name := range Managers(m) {
		if !slices.Contains(c.managers, name) {
			c.managers = append(c.managers, name)
		}
	}
	slices.Sort(c.managers)
}

// Corrected notes an attempt to put the object back, whether it succeeded or not.
func (c *CorrectionHistory) Corrected(now time.Time) {
	if c.count == 0 {
		c.first = now
	}
	c.count, c.last = c.count+1, now
}

// ContestedMessage says in words which corrections are reverted again and again, by which field
// managers, since when, and when the next try is; "" if none is. Times are in UTC.
func ContestedMessage(histories []*CorrectionHistory) string {
	var real []*CorrectionHistory
	for _, h := range histories {
		if h.contested {
			real = append(real, h)
		}
	}
	if len(real) == 0 {
		return ""
	}
	slices.SortFunc(real, func(a, b *CorrectionHistory) int { return strings.Compare(a.object, b.object) })
	h := real[0]
	text := fmt.Sprintf("%s keeps changing %s: put back %d times since %s, next try %s",
		h.otherManagers(), h.object, h.count, formatTime(h.first), formatTime(h.nextCorrection()))
	if more := len(real) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// otherManagers is who is at work against the corrections.
func (c *CorrectionHistory) otherManagers() string {
	others := slices.DeleteFunc(slices.Clone(c.managers), func(n string) bool { return n == fleet.FieldManagerRelease })
	switch {
	case len(others) > 0:
		return strings.Join(others[:min(len(others), 3)], ", ")
	case len(c.managers) > 0: // what we wrote was changed on its way into the cluster
		return "an admission webhook"
	}
	return "somebody"
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
