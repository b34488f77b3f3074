package deploy

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/helm"
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

// sharing knows which deployments wait for objects that other bundles of their
// repository have.
type sharing struct {
	now     func() time.Time
	enqueue func(name string)

	mu    sync.Mutex
	waits map[string]*shared // by name of the deployment
}

func newSharing(now func() time.Time, enqueue func(name string)) *sharing {
	return &sharing{now: now, enqueue: enqueue, waits: map[string]*shared{}}
}

// awaitedObjects returns what a deployment waits for. The caller holds h.mu.
func (sh *sharing) awaitedObjects(name string) *shared {
	w := sh.waits[name]
	if w == nil {
		w = &shared{}
		sh.waits[name] = w
	}
	return w
}

// forget removes what is known of a deployment.
func (sh *sharing) forget(name string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.waits, name)
}

// conflicts collects such objects during an attempt.
type conflicts struct {
	mu   sync.Mutex
	list []helm.SharedObject
}

// addConflict records an object that belongs to another release and is not taken over.
func (s *snapshot) addConflict(o helm.SharedObject) {
	s.conflicts.mu.Lock()
	defer s.conflicts.mu.Unlock()
	if !slices.Contains(s.conflicts.list, o) {
		s.conflicts.list = append(s.conflicts.list, o)
	}
}

// claimOf returns how the release that has an object relates to the deployment.
func (s *snapshot) claimOf(owner release.ID) (release.Claim, string) {
	own := s.rec.Former
	if s.hasRecord {
		own = append(slices.Clone(own), s.rec.Release)
	}
	return s.wanted.ClaimOf(owner, own)
}

// release returns the release that the deployment has made, else the one that it will
// make.
func (s *snapshot) release() release.ID {
	if s.hasRecord && s.rec.Release != (release.ID{}) {
		return s.rec.Release
	}
	return helm.IDOf(s.name, s.spec.Options)
}

// setAwaited records after a try which objects the deployment waits for. A try that
// failed before the objects were compared changes nothing: a withdrawn bundle keeps the
// objects until they are taken over. A permanent failure ends the wait, unless that
// would delete objects that always need an approval.
func (sh *sharing) setAwaited(s *snapshot, err error) {
	s.conflicts.mu.Lock()
	found := s.conflicts.list
	s.conflicts.list = nil
	s.conflicts.mu.Unlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := sh.awaitedObjects(s.name)
	switch {
	case reconcile.ReasonOf(err) == release.ReasonSharedObject:
		if len(w.objects) == 0 {
			w.since = sh.now()
		}
		slices.SortFunc(found, func(a, b helm.SharedObject) int { return strings.Compare(a.Identity(), b.Identity()) })
		w.objects = found
	case err == nil, reconcile.IsTerminal(err) && !slices.ContainsFunc(w.objects, alwaysNeedsApproval):
		*w = shared{}
	}
	sh.enqueueAwaiting(s.release())
}

// alwaysNeedsApproval reports whether the removal of an object always waits for an
// approval, as that of a PersistentVolumeClaim.
func alwaysNeedsApproval(o helm.SharedObject) bool { return withdrawal.NeedsApproval(o.Kind.Kind) }

// enqueueAwaiting enqueues the deployments that wait for objects of a release. The
// caller holds h.mu.
func (sh *sharing) enqueueAwaiting(id release.ID) {
	for name, w := range sh.waits {
		if w.isFrom(id) {
			sh.enqueue(name)
		}
	}
}

// isFrom reports whether one of the awaited objects is of a release.
func (s shared) isFrom(id release.ID) bool {
	return slices.ContainsFunc(s.objects, func(o helm.SharedObject) bool { return o.Owner == id })
}

// waitsFor reports whether a deployment waits for objects of a release.
func (sh *sharing) waitsFor(name string, id release.ID) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := sh.waits[name]
	return w != nil && w.isFrom(id)
}

// awaitedByOthers returns a function that reports whether other bundles of the same
// repository wait for an object of a deployment.
func (sh *sharing) awaitedByOthers(s *snapshot) func(object string) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	set := map[string]bool{}
	for name, w := range sh.waits {
		if p := s.wanted.Peers[name]; !p.Live || !p.SameRepository {
			continue
		}
		for _, o := range w.objects {
			if o.Owner == s.release() {
				set[o.Identity()] = true
			}
		}
	}
	return func(object string) bool { return set[object] }
}

// graceLeft returns how long the agent waits for the bundle that has the objects: it
// may have been renamed and be withdrawn soon. At most 0: the time is over.
func (sh *sharing) graceLeft(s *snapshot) time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sharedGrace - sh.now().Sub(sh.awaitedObjects(s.name).since)
}

// uniquelyAwaited returns the objects that always need an approval and that the
// deployment takes over when the only bundle that has them is withdrawn: the manager
// need not count them as lost. If several bundles have an object, it is unknown which
// of them stays.
func (sh *sharing) uniquelyAwaited(s *snapshot) []report.Object {
	if s.failure == nil || s.failure.Reason != release.ReasonSharedObject {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var out []report.Object
	objects := sh.awaitedObjects(s.name).objects
	for _, o := range objects {
		if o.Owner != objects[0].Owner {
			return nil
		}
		if alwaysNeedsApproval(o) {
			version, kind := o.Kind.ToAPIVersionAndKind()
			out = append(out, report.Object{Kind: kind, APIVersion: version, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return out
}
