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

// changed passes a change of a live object on to the deployments of its object set:
// only one that has the object in its manifest acts on it. While the objects of a
// deployment are being read, it is unknown whether that happens before or after the
// change: this is checked at the end.
func (m *Monitor) changed(c watch.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := ref{kind: c.Kind, key: c.Key}
	for name := range m.names[c.Set] {
		d := m.deployments[name]
		switch {
		case d.looking:
			d.missed[at] = c
		case d.view != nil:
			m.onChange(name, d, at, c)
		}
	}
}

// onChange notes a relevant change, and enqueues the deployment for it. The caller
// holds m.mu.
func (m *Monitor) onChange(name string, d *deployment, at ref, c watch.Change) {
	s := d.view.objects[at]
	if s == nil || !s.changes(c) {
		return
	}
	d.dirty[at] = true
	if !d.turning {
		m.wakeFor(name, s)
	}
}

// wakeFor looks at an object as soon as that may be.
func (m *Monitor) wakeFor(name string, s *seen) {
	now := m.cfg.Now()
	if due := s.due(); due.After(now) {
		m.cfg.Enqueue(name, due.Add(beat).Truncate(beat).Sub(now))
		return
	}
	m.cfg.Enqueue(name, 0)
}

// changes reports whether an object may differ in a relevant way from what was seen of
// it. Irrelevant changes are remembered, to judge the next change by.
func (s *seen) changes(c watch.Change) bool {
	if c.Meta == nil {
		return s.mark.Version > 0
	}
	now := drift.MarkOf(c.Meta, s.keys)
	if now.Version <= s.mark.Version {
		return false
	}
	if s.mark.Version > 0 && !s.mark.Concerns(now) {
		s.mark = now
		return false
	}
	return true
}

// due is when an object may be looked at again.
func (s *seen) due() time.Time { return s.looked.Add(pause) }

// Begin begins a run of the loop, and returns the function that ends it. Changes that
// come during the run are handled in it, or enqueue the deployment for another.
func (m *Monitor) Begin(name string) (end func()) {
	d := m.of(name)
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
				m.wakeFor(name, o)
			}
		}
	}
}

// begin empties the list of objects to look at, as far as they may be looked at
// by now. Changes that come from now on are kept for end.
func (m *Monitor) begin(d *deployment) (all bool, dirty map[ref]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	all, dirty = d.all, map[ref]bool{}
	for at := range d.dirty {
		if all || d.view == nil || d.view.objects[at] == nil || !d.view.objects[at].due().After(now) {
			dirty[at] = true
			delete(d.dirty, at)
		}
	}
	d.all, d.looking = false, true
	return all, dirty
}

// end keeps what was seen, and heeds the changes that came meanwhile.
func (m *Monitor) end(name string, d *deployment, v *view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v == nil || v.whole && v != d.view {
		clear(d.dirty)
	}
	d.view, d.looking = v, false
	if v != nil {
		for at, c := range d.missed {
			m.onChange(name, d, at, c)
		}
	}
	clear(d.missed)
}

// abort puts back what could not be looked at.
func (m *Monitor) abort(d *deployment, all bool, dirty map[ref]bool) {
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
