package deploy

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Two bundles of one repository must not have the same object: the second one waits
// until the first is withdrawn, or no longer has the object. So does the bundle with
// the new name after a renaming: the manager withdraws the old one a moment later.

const (
	// sharedGrace is how long such a wait is treated as one for a renamed bundle. After
	// that it is a failure.
	sharedGrace = time.Minute
	// sharedDelay is when the objects are looked at again at the latest.
	sharedDelay = time.Minute
)

// shared are the objects that a deployment waits for.
type shared struct {
	objects []helm.SharedObject
	since   time.Time
}

// conflicts collects such objects during an attempt.
type conflicts struct {
	mu   sync.Mutex
	list []helm.SharedObject
}

// sharedWith notes an object that is not taken over.
func (s *snapshot) sharedWith(o helm.SharedObject) {
	s.conflicts.mu.Lock()
	defer s.conflicts.mu.Unlock()
	if !slices.Contains(s.conflicts.list, o) {
		s.conflicts.list = append(s.conflicts.list, o)
	}
}

// claimOf says how a release that has an object relates to the deployment.
func (s *snapshot) claimOf(owner release.ID) (release.Claim, string) {
	own := s.rec.Former
	if s.known {
		own = append(slices.Clone(own), s.rec.Release)
	}
	return s.wanted.ClaimOf(owner, own)
}

// release is the release that the deployment has made, else the one that it will
// make.
func (s *snapshot) release() release.ID {
	if s.known && s.rec.Release != (release.ID{}) {
		return s.rec.Release
	}
	return helm.IDOf(s.name, s.spec.Options)
}

// triedShared notes after an attempt which objects the deployment waits for. An attempt
// that failed before the objects were looked at changes nothing: a withdrawn bundle
// keeps the awaited objects until they are taken over. Only a permanent failure ends
// the wait, unless precious objects would be removed by that.
func (r *Reconciler) triedShared(s *snapshot, err error) {
	s.conflicts.mu.Lock()
	found := s.conflicts.list
	s.conflicts.list = nil
	s.conflicts.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &s.state.shared
	switch {
	case reconcile.ReasonOf(err) == release.ReasonSharedObject:
		if len(w.objects) == 0 {
			w.since = r.cfg.Now()
		}
		slices.SortFunc(found, func(a, b helm.SharedObject) int { return strings.Compare(a.Identity(), b.Identity()) })
		w.objects = found
	case err == nil, reconcile.IsTerminal(err) && !slices.ContainsFunc(w.objects, precious):
		*w = shared{}
	}
	if err == nil {
		r.wakeAwaiting(s.release())
	}
}

func precious(o helm.SharedObject) bool { return withdrawal.Precious(o.Kind.Kind) }

// wakeAwaiting looks at the deployments that wait for objects of a release. The caller
// holds r.mu.
func (r *Reconciler) wakeAwaiting(id release.ID) {
	for name, st := range r.states {
		if st.shared.from(id) {
			r.loop.Add(kube.Key{Name: name})
		}
	}
}

// from reports whether objects of a release are waited for.
func (w shared) from(id release.ID) bool {
	return slices.ContainsFunc(w.objects, func(o helm.SharedObject) bool { return o.Owner == id })
}

// awaits reports whether a deployment waits for objects of a release.
func (r *Reconciler) awaits(name string, id release.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.states[name]
	return st != nil && st.shared.from(id)
}

// awaitedOf returns a function that reports whether other bundles of the same
// repository wait for an object of a deployment.
func (r *Reconciler) awaitedOf(s *snapshot) func(object string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := map[string]bool{}
	for name, st := range r.states {
		if p := s.wanted.Peers[name]; !p.Live || !p.SameRepository {
			continue
		}
		for _, o := range st.shared.objects {
			if o.Owner == s.release() {
				set[o.Identity()] = true
			}
		}
	}
	return func(object string) bool { return set[object] }
}

// sharedGraceLeft is how long the bundle that has the objects may still be a renamed one
// that is about to be withdrawn; at most 0 when that time is over.
func (r *Reconciler) sharedGraceLeft(s *snapshot) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sharedGrace - r.cfg.Now().Sub(s.state.shared.since)
}

// awaited returns the precious objects that the deployment takes over when the only
// bundle that has them is withdrawn: the manager need not treat them as lost. If
// several bundles have them, it is unknown which one stays.
func (r *Reconciler) awaited(s *snapshot) []report.Object {
	if s.failure == nil || s.failure.Reason != release.ReasonSharedObject {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []report.Object
	for _, o := range s.state.shared.objects {
		if o.Owner != s.state.shared.objects[0].Owner {
			return nil
		}
		if precious(o) {
			version, kind := o.Kind.ToAPIVersionAndKind()
			out = append(out, report.Object{Kind: kind, APIVersion: version, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return out
}
