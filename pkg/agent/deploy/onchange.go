package deploy

import (
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	"github.com/fleetworkspace/fleet/pkg/kube"
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
func (r *Reconciler) changed(c watch.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := ref{kind: c.Kind, key: c.Key}
	for name := range r.names[c.Set] {
		st := r.states[name]
		switch {
		case st.looking:
			st.missed[at] = c
		case st.view != nil:
			r.onChange(name, st, at, c)
		}
	}
}

// onChange notes a relevant change, and enqueues the deployment for it. The caller
// holds r.mu.
func (r *Reconciler) onChange(name string, st *state, at ref, c watch.Change) {
	s := st.view.objects[at]
	if s == nil || !s.changes(c) {
		return
	}
	st.dirty[at] = true
	if !st.turning {
		r.wakeFor(name, s)
	}
}

// wakeFor looks at an object as soon as that may be.
func (r *Reconciler) wakeFor(name string, s *seen) {
	now := r.cfg.Now()
	if due := s.due(); due.After(now) {
		r.loop.AddAfter(kube.Key{Name: name}, due.Add(beat).Truncate(beat).Sub(now))
		return
	}
	r.loop.Add(kube.Key{Name: name})
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

// turn begins a run of the loop, and returns the function that ends it. Changes that
// come during the run are handled in it, or enqueue the deployment for another.
func (r *Reconciler) turn(s *snapshot) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state.turning = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.state.turning = false
		if s.state.view == nil {
			return
		}
		for at := range s.state.dirty {
			if o := s.state.view.objects[at]; o != nil {
				r.wakeFor(s.name, o)
			}
		}
	}
}

// begin empties the list of objects to look at, as far as they may be looked at
// by now. Changes that come from now on are kept for end.
func (r *Reconciler) begin(st *state) (all bool, dirty map[ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	all, dirty = st.all, map[ref]bool{}
	for at := range st.dirty {
		if all || st.view == nil || st.view.objects[at] == nil || !st.view.objects[at].due().After(now) {
			dirty[at] = true
			delete(st.dirty, at)
		}
	}
	st.all, st.looking = false, true
	return all, dirty
}

// end keeps what was seen, and heeds the changes that came meanwhile.
func (r *Reconciler) end(name string, st *state, v *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v == nil || v.whole && v != st.view {
		clear(st.dirty)
	}
	st.view, st.looking = v, false
	if v != nil {
		for at, c := range st.missed {
			r.onChange(name, st, at, c)
		}
	}
	clear(st.missed)
}

// abort puts back what could not be looked at.
func (r *Reconciler) abort(st *state, all bool, dirty map[ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.all, st.looking = st.all || all, false
	for at := range dirty {
		st.dirty[at] = true
	}
	for at := range st.missed {
		st.dirty[at] = true
	}
	clear(st.missed)
}
