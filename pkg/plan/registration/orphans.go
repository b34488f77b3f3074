package registration

import (
	"slices"
	"time"
)

// How long an object must look orphaned before the manager deletes it. Its owner may be
// absent because a restore is not finished.
const (
	OrphanTimeout = 10 * time.Minute
	// TombstoneTimeout applies to namespaces with withdrawals that no agent has
	// acknowledged yet.
	TombstoneTimeout = 24 * time.Hour
)

// An OrphanTracker records since when objects have looked orphaned, by name.
type OrphanTracker map[string]time.Time

// Update returns the next tracker, and the sorted names of the orphans whose timeout has
// passed. orphans has the timeout of each orphan that the manager sees now. An orphan that
// the manager does not see in one call starts again in the next one. The list never names an
// orphan that the manager sees for the first time.
func (o OrphanTracker) Update(orphans map[string]time.Duration, now time.Time) (OrphanTracker, []string) {
	next := OrphanTracker{}
	var ripe []string
	for name, timeout := range orphans {
		since, known := o[name]
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
