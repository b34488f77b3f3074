package registration

import (
	"slices"
	"time"
)

// How long something must look orphaned before it goes. Absence may be a
// restore that is not finished.
const (
	OrphanTimeout = 10 * time.Minute
	// TombstoneTimeout is for namespaces with orders that no agent has
	// answered yet.
	TombstoneTimeout = 24 * time.Hour
)

// A OrphanTracker remembers since when things have looked orphaned, by name.
type OrphanTracker map[string]time.Time

// Update returns the next suspicion, of the orphans that are seen now, and those that have
// been seen without a break for as long as patience says, sorted. An orphan that is seen
// for the first time is never among the latter.
func (s OrphanTracker) Update(orphans map[string]time.Duration, now time.Time) (OrphanTracker, []string) {
	next := OrphanTracker{}
	var ripe []string
	for name, timeout := range orphans {
		since, known := s[name]
		if !known {
			since = now
		}
		next[name] = since
		if known && now.Sub(since) >= timeout {
			ripe = append(ripe, name)
		}
	}
	slices.Sort(ripe)
	return next, ripe
}
