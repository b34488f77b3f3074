package drift

import (
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
)

const (
	// pause is how long an object is left alone after it was looked at: however
	// often it changes, it is read once in that time at most.
	pause = time.Second
	// beat is the interval at which delayed looks are done together, so that many busy
	// objects cause few runs.
	beat = 250 * time.Millisecond
)

// onWatchEvent handles a change of a live object. It passes the change to the
// deployments with the label of the object; only one that has the object in its
// manifest uses it. While a run reads the objects of a deployment, storeView handles
// the change at the end.
func (m *Monitor) onWatchEvent(c watch.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := ref{kind: c.Kind, key: c.Key}
	for name := range m.names[c.Set] {
		d := m.deployments[name]
		switch {
		case d.looking:
			d.missed[at] = c
		case d.view != nil:
			m.markDirty(name, d, at, c)
		}
	}
}

// markDirty records a relevant change, and enqueues the deployment. The caller holds
// m.mu.
func (m *Monitor) markDirty(name string, d *deployment, at ref, c watch.Change) {
	s := d.view.objects[at]
	if s == nil || !s.isRelevant(c) {
		return
	}
	d.dirty[at] = true
	if !d.turning {
		m.enqueueFor(name, s)
	}
}

// enqueueFor enqueues a deployment for the time when an object may be checked again.
func (m *Monitor) enqueueFor(name string, s *seen) {
	now := m.cfg.Now()
	if due := s.nextCheck(); due.After(now) {
		m.cfg.Enqueue(name, due.Add(beat).Truncate(beat).Sub(now))
		return
	}
	m.cfg.Enqueue(name, 0)
}

// isRelevant reports whether the state of an object may differ after a change. It
// remembers irrelevant changes, to compare the next one.
func (s *seen) isRelevant(c watch.Change) bool {
	if c.Meta == nil {
		return s.mark.Version > 0
	}
	now := drift.MarkOf(c.Meta, s.keys)
	if now.Version <= s.mark.Version {
		return false
	}
	if s.mark.Version > 0 && !s.mark.MayDiffer(now) {
		s.mark = now
		return false
	}
	return true
}

// nextCheck returns when an object may be checked again.
func (s *seen) nextCheck() time.Time { return s.looked.Add(pause) }

// Begin starts a run for a deployment, and returns the function that ends it. Changes
// during the run are handled in it, or enqueue the deployment again.
func (m *Monitor) Begin(name string) (end func()) {
	d := m.deploymentOf(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	d.turning = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		d.turning = false
		if d.view == nil {
			return
		}
		for at := range d.dirty {
			if o := d.view.objects[at]; o != nil {
				m.enqueueFor(name, o)
			}
		}
	}
}

// takeDirty takes the objects that must be read and may be read by now. Later changes
// are kept for storeView.
func (m *Monitor) takeDirty(d *deployment) (all bool, dirty map[ref]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	all, dirty = d.all, map[ref]bool{}
	for at := range d.dirty {
		if all || d.view == nil || d.view.objects[at] == nil || !d.view.objects[at].nextCheck().After(now) {
			dirty[at] = true
			delete(d.dirty, at)
		}
	}
	d.all, d.looking = false, true
	return all, dirty
}

// storeView stores what was read, and handles the changes that came meanwhile.
func (m *Monitor) storeView(name string, d *deployment, v *view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v == nil || v.whole && v != d.view {
		clear(d.dirty)
	}
	d.view, d.looking = v, false
	if v != nil {
		for at, c := range d.missed {
			m.markDirty(name, d, at, c)
		}
	}
	clear(d.missed)
}

// restoreDirty puts back objects that could not be read.
func (m *Monitor) restoreDirty(d *deployment, all bool, dirty map[ref]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.all, d.looking = d.all || all, false
	for at := range dirty {
		d.dirty[at] = true
	}
	for at := range d.missed {
		d.dirty[at] = true
	}
	clear(d.missed)
}
