package deploy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A manager that was restored from a backup repeats its orders of that time. Three
// signs show that: an object of a lower generation than the one that was accepted, an
// order that it has taken back since, and an API server whose resourceVersion is lower
// than it was. The agent then holds what the manager asks for, for release.BehindLimit,
// in which the manager may catch up by itself. For a manager that was restored into
// another cluster, see epoch.go.

// heldStep is how often the time for which something was held is written down.
const heldStep = time.Minute

// stale reports whether the manager's object of a deployment may be from before a
// restore.
func (r *Reconciler) stale(s *snapshot, order string) bool {
	same := s.known && s.bd.UID == s.rec.UID
	switch {
	case same && s.bd.Generation < s.rec.Generation:
		return true
	case order != "" && order == s.rec.Revoked:
		return true
	case s.otherEpoch():
		return s.staleCopy(order)
	}
	said := wordOf(s.bd)
	return (order != "" || s.known && !same) && (s.rec.Held == said || r.restores.covers(s.bd.Name, said))
}

// wordOf is what a manager says with an object, in short: an agent's own report of
// how it is changes nothing of it.
func wordOf(bd *fleet.BundleDeployment) string {
	return fmt.Sprintf("%s/%d/%s", bd.UID, bd.Generation, bd.Annotations[fleet.AnnotationWithdrawn])
}

// heldFor returns how long something has been held: the recorded time, and the time
// that this process has measured since. It does not use the wall clock, so correcting
// that clock changes nothing.
func (r *Reconciler) heldFor(s *snapshot) time.Duration {
	before := s.rec.HeldFor
	if s.holdsAnew() {
		before = 0
	}
	if s.state.heldFrom.IsZero() {
		return before
	}
	return before + r.cfg.Now().Sub(s.state.heldFrom)
}

// noteHeld measures how long something is held. It leaves the rest of the record as it
// is: what the manager asks for now is not accepted.
func (r *Reconciler) noteHeld(ctx context.Context, s *snapshot) error {
	now := r.cfg.Now()
	if s.state.heldFrom.IsZero() {
		s.state.heldFrom = now
	}
	if s.holdsAnew() {
		s.rec.HeldFor, s.rec.HeldSince = 0, nil
	}
	if passed := now.Sub(s.state.heldFrom); passed >= heldStep {
		s.rec.HeldFor, s.state.heldFrom = s.rec.HeldFor+passed, now
	}
	s.again(heldStep)
	if !s.known {
		return nil // there is no mark to keep it with
	}
	s.rec.Held = s.word()
	if s.rec.HeldSince == nil {
		since := now.UTC()
		s.rec.HeldSince = &since
	}
	return r.cfg.Store.Save(ctx, s.rec)
}

// ordered remembers the order that a deployment bears. revoked records that the
// deployment no longer bears it: if the same order returns, it is from before a restore
// of the manager.
func (r *Reconciler) ordered(st *state, order string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.order = order
}

func (r *Reconciler) revoked(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state.order != "" {
		s.rec.Revoked = s.state.order
	}
}

// answeredOrder is the order that the status of a deployment still answers.
func answeredOrder(bd *fleet.BundleDeployment) string {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn)
	if c == nil || c.Status != corev1.ConditionTrue {
		return ""
	}
	return c.Message
}

// restoreDetector notices that the manager's API server was restored from a backup.
type restoreDetector struct {
	mu       sync.Mutex
	manager  string // whose versions are compared: "<id>/<epoch>"
	highest  uint64 // that was seen
	restored uint64 // of the first list with a lower one; 0: there was none
	judged   *Session
	old      map[string]string // what that list said, by name; see wordOf
	suspect  time.Time         // since when an object has a lower version than before
	kept     bool              // the versions of the agent's records were taken in
	doubted  map[string]bool   // new objects with lower versions than others before, by name
}

// suspectLimit is how long the list that brings older objects may take to be known
// as a whole.
const suspectLimit = 2 * time.Second

// changed stores the version of an object, after the one that it had before. An
// object's version never decreases otherwise, so the list has to be judged again.
func (p *restoreDetector) changed(manager string, before, now *fleet.BundleDeployment, at time.Time) {
	is, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	if is <= p.restored {
		p.old[now.Name] = wordOf(now)
	}
	if before == nil && p.judged != nil && manager == p.manager {
		p.doubt(now.Name, is)
	}
	p.mu.Unlock()
	if before != nil {
		if was, err := strconv.ParseUint(before.ResourceVersion, 10, 64); err == nil && is < was {
			p.mu.Lock()
			p.judged, p.suspect = nil, at
			p.mu.Unlock()
			return
		}
	}
	p.seen(manager, now.ResourceVersion)
}

// seen stores a resourceVersion of a manager. It ignores one that is no number.
func (p *restoreDetector) seen(manager, version string) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if manager != p.manager {
		p.manager, p.highest, p.restored, p.old = manager, 0, 0, nil
	}
	p.highest = max(p.highest, n)
}

// judge compares the first list of a session with what was seen before. It is
// true once for a list that is older.
func (p *restoreDetector) judge(s *Session, manager, version string, now time.Time) (older bool) {
	list := s.list()
	n, err := strconv.ParseUint(version, 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	suspected := !p.suspect.IsZero()
	switch {
	case p.judged == s:
		return false
	case suspected && n >= p.highest && now.Sub(p.suspect) < suspectLimit:
		return false // the version of the list before
	}
	p.judged, p.suspect, p.doubted = s, time.Time{}, nil
	if err != nil || manager != p.manager || n >= p.highest && !suspected {
		return false
	}
	p.restored, p.highest, p.old = n, n, map[string]string{}
	for _, bd := range list {
		if v, err := strconv.ParseUint(bd.ResourceVersion, 10, 64); err == nil && v <= n {
			p.old[bd.Name] = wordOf(bd)
		}
	}
	return true
}

// list is what the manager has.
func (s *Session) list() []*fleet.BundleDeployment {
	if s.Deployments == nil {
		return nil
	}
	return s.Deployments.List("")
}

// once is true the first time.
func (p *restoreDetector) once() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.kept
	p.kept = true
	return first
}

// knows reports whether the first list of a session was judged.
func (p *restoreDetector) knows(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judged == s
}

// wasRestored reports whether the manager was found to be restored from a backup since
// the agent's start.
func (p *restoreDetector) wasRestored() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restored > 0
}

// covers reports whether a manager that had just been restored said this of a
// deployment.
func (p *restoreDetector) covers(name, said string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, ok := p.old[name]
	return ok && old == said
}

// judge finds out, once for each session, whether the manager has become older than it
// was, as after a restore from a backup: then everything in its list is held for a
// while.
func (r *Reconciler) judge() {
	s := r.session.Load()
	if s == nil || r.restores.knows(s) || !s.Deployments.HasSynced() {
		return
	}
	version := s.Deployments.Version()
	if version == "" {
		return // the list is there, its version will be in a moment
	}
	manager := *r.mark.Load()
	if r.restores.once() {
		if kept := r.cfg.LastVersion; kept != nil {
			if text := kept(); strings.HasPrefix(text, markText(manager)+"/") {
				r.restores.recall(text)
			}
		}
		for _, rec := range r.cfg.Store.All() {
			if rec.Key.Manager == manager.ID && rec.Epoch == manager.Epoch {
				r.restores.seen(markText(manager), rec.Version)
			}
		}
	}
	if r.restores.judge(s, markText(manager), version, r.cfg.Now()) && r.cfg.OnRestored != nil {
		r.cfg.OnRestored()
	}
}

// mustJudge reports whether the agent has to find out first if the manager's list is
// from before a restore. That is so before an order is carried out, before absence is
// taken as an order, and before another object of the same name replaces what was
// accepted.
func (r *Reconciler) mustJudge(s *snapshot) bool {
	if s.bd == nil {
		return s.missing() && !s.judged
	}
	// A deployment that the agent does not know is installed, but it may have been
	// removed before a restore.
	doubtful := s.unknown() && r.restores.doubts(s.bd.Name)
	another := s.known && s.bd.UID != s.rec.UID && (s.wanted.Order != "" || s.rec.Applied != s.bd.Spec.DeploymentID)
	if (another || s.unknown() || s.wanted.Order != "") && !s.judged {
		return true
	}
	return (another || doubtful) && !r.confirmed(s)
}

// confirmed reports whether the manager has answered a check-in since an object was
// first seen that is another than the accepted one. A list may be there before the
// answer which says that its manager was restored elsewhere, so it is asked for.
func (r *Reconciler) confirmed(s *snapshot) bool {
	if s.session == nil || s.session.CheckIn == nil {
		return true
	}
	r.mu.Lock()
	first := s.state.replacedUID != s.bd.UID
	if first {
		s.state.replacedUID, s.state.asked = s.bd.UID, s.answers
	}
	asked := s.state.asked
	r.mu.Unlock()
	if first {
		s.session.CheckIn()
	}
	return s.answers > asked
}

// disown forgets what was observed of a release of another owner: the agent neither
// reports nor corrects it.
func (s *snapshot) disown() {
	if !s.wanted.Owns(s.observed) {
		s.observed = release.Observed{ID: s.observed.ID, State: release.Absent}
	}
}

// judgeDelay is after which time a deployment that waits for judge asks again.
const judgeDelay = 200 * time.Millisecond

// isBehind reports whether an action is one of waiting for a manager to catch up.
func isBehind(a release.Action) bool { return a.Reason == release.ReasonManagerBehind }
