package workspace

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// missingTimes records since when objects are missing for which others were made. The
// record is kept in memory; after a restart it starts again, which makes the wait
// longer and never shorter.
type missingTimes struct {
	now func() time.Time

	mu    sync.Mutex
	since map[kube.Key]time.Time
}

func newMissingTimes(now func() time.Time) *missingTimes {
	return &missingTimes{now: now, since: map[kube.Key]time.Time{}}
}

// missingFor returns how long an object has been missing: since the first call for it.
func (m *missingTimes) missingFor(key kube.Key) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if _, ok := m.since[key]; !ok {
		m.since[key] = now
	}
	return now.Sub(m.since[key])
}

// forget records that an object exists, or that nothing needs it any more.
func (m *missingTimes) forget(key kube.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.since, key)
}
