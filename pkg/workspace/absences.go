package workspace

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// absences records since when objects are missing for which others were made. The
// record is kept in memory; after a restart it starts again, which makes the wait
// longer and never shorter.
type absences struct {
	now func() time.Time

	mu    sync.Mutex
	since map[kube.Key]time.Time
}

func newAbsences(now func() time.Time) *absences {
	return &absences{now: now, since: map[kube.Key]time.Time{}}
}

// of is for how long an object has been missing; it is missing from the first call on.
func (a *absences) of(key kube.Key) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if _, ok := a.since[key]; !ok {
		a.since[key] = now
	}
	return now.Sub(a.since[key])
}

// forget notes that an object is there, or that it is no longer missed.
func (a *absences) forget(key kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, key)
}
