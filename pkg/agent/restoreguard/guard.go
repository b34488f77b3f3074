// Package restoreguard protects deployments from a manager that was restored from a
// backup: such a manager repeats the withdrawals and versions of that time.
//
// Three signs show a restore: an object of a lower generation than the one that the
// agent accepted, a withdrawal that the manager has taken back since, and an API server
// whose resourceVersion is lower than it was. The agent then holds what the manager
// asks for, for release.BehindLimit, until the manager has read git again. For a
// manager that was restored into another cluster, see epoch.go.
//
// The package decides and remembers. It reads no API server and writes none.
package restoreguard

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// HoldStep is how often the time for which something was held is written down.
const HoldStep = time.Minute

// A List is the list of BundleDeployments of one session with the manager; *kube.Cache
// has it. Two sessions never share a List.
type List interface {
	HasSynced() bool
	Version() string
	// Listed reports whether the list is read once and not kept current: what has a higher
	// version than the list is the result of a write of the agent.
	Listed() bool
	List(namespace string) []*fleet.BundleDeployment
}

// Config configures a Guard.
type Config struct {
	Now func() time.Time
	// Records returns the records of what the agent accepted.
	Records func() []store.Record
	// OnRestored, where not nil, is called when the manager's API server has become
	// older than it was.
	OnRestored func()
	// KeepVersion, where not nil, keeps the highest version that was seen of the
	// manager's objects for the next run of the agent, which LastVersion returns it to.
	KeepVersion func(string)
	LastVersion func() string
}

// A Guard notices that the manager was restored, and decides for each deployment
// whether what the manager asks for may be from before that. It is safe for concurrent
// use.
type Guard struct {
	cfg      Config
	detector detector
	answers  atomic.Uint64 // of check-ins

	mu          sync.Mutex
	deployments map[string]*deployment // by name
}

// deployment is what the guard remembers of one deployment until the agent ends.
type deployment struct {
	order       string    // to withdraw, that was seen last
	heldFrom    time.Time // since when a request is held that is not in the record
	replacedUID types.UID // an object that is another than the accepted one
	asked       uint64    // how many answers there were when it was first seen
}

// New makes a Guard.
func New(cfg Config) *Guard {
	return &Guard{cfg: cfg, deployments: map[string]*deployment{}}
}

// A Request is what the manager asks for with one BundleDeployment, beside what the
// agent accepted of it before.
type Request struct {
	Name    string
	Object  *fleet.BundleDeployment // nil: the manager is away or lacks it
	Order   string                  // to withdraw; empty: there is none
	Record  *store.Record
	Known   bool              // Record is in the store
	Mark    registration.Mark // of the manager
	Answers uint64            // what Answers returned before Mark was read
	Agent   bool              // it installs the agent itself
	Judged  bool              // the manager's list was judged before the rest was read
	// Missing: the synced list of the manager lacks a deployment whose last state was
	// kept.
	Missing bool
	// CheckIn asks the manager for an answer. Nil: it cannot be asked.
	CheckIn func()
}

// An Assessment is what may be wrong with a Request.
type Assessment struct {
	Stale        bool          // it may be from before a restore
	MayBeRemoved bool          // the agent may have removed the deployment by an order that the manager lost
	HeldFor      time.Duration // how long the request has been held for one of these reasons
}

// Observe stores a version of an object in the manager's cache; before is nil for a new
// object.
func (g *Guard) Observe(m registration.Mark, before, now *fleet.BundleDeployment) {
	g.detector.observeVersion(MarkText(m), before, now, g.cfg.Now())
}

// Answered counts an answer of the manager to a check-in.
func (g *Guard) Answered() { g.answers.Add(1) }

// Answers returns how many check-ins were answered.
func (g *Guard) Answers() uint64 { return g.answers.Load() }

// Judged reports whether the list of a session was judged.
func (g *Guard) Judged(l List) bool { return g.detector.isJudged(l) }

// Restored reports whether the guard has found since the agent's start that the manager
// was restored from a backup.
func (g *Guard) Restored() bool { return g.detector.wasRestored() }

// KeepVersion stores the highest version for the next run of the agent. The caller
// calls it when it has removed a record that held a version.
func (g *Guard) KeepVersion() {
	if text := g.detector.text(); text != "" && g.cfg.KeepVersion != nil {
		g.cfg.KeepVersion(text)
	}
}

// Judge decides, once for each session, whether the manager was restored from a backup:
// then the agent holds everything in its list for a while.
func (g *Guard) Judge(l List, m registration.Mark) {
	if l == nil || g.detector.isJudged(l) || !l.HasSynced() {
		return
	}
	version := l.Version()
	if version == "" {
		return // the informer sets the version after the list
	}
	manager := MarkText(m)
	if g.detector.firstTime() {
		if last := g.cfg.LastVersion; last != nil {
			if text := last(); strings.HasPrefix(text, manager+"/") {
				g.detector.parseText(text)
			}
		}
		for _, rec := range g.cfg.Records() {
			if rec.Key.Manager == m.ID && rec.Epoch == m.Epoch {
				g.detector.observeResourceVersion(manager, rec.Version)
			}
		}
	}
	if g.detector.isOlder(l, manager, version, g.cfg.Now()) && g.cfg.OnRestored != nil {
		g.cfg.OnRestored()
	}
}

// Assess decides whether a request may be from before a restore. A request that is not
// held ends the measurement of the time. A request without an order records in q.Record
// that the manager has taken back the earlier order.
func (g *Guard) Assess(q Request) Assessment {
	var a Assessment
	if q.Object != nil {
		a.Stale, a.MayBeRemoved = g.mayBeStale(q), g.mayBeRemoved(q)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.deploymentOf(q.Name)
	if a.Stale || a.MayBeRemoved {
		a.HeldFor = d.heldFor(q, g.cfg.Now())
	} else {
		d.heldFrom = time.Time{}
	}
	if q.Order == "" && d.order != "" {
		q.Record.Revoked = d.order
	}
	return a
}

// ObserveOrder stores the order on a deployment. If the order disappears and the same
// order appears again, it is from before a restore of the manager.
func (g *Guard) ObserveOrder(name, order string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deploymentOf(name).order = order
}

// Hold measures how long a request is held, and stores that in q.Record. It reports
// whether the record must be saved. It does not change the rest of the record: the
// agent does not accept the request.
func (g *Guard) Hold(q Request) (save bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d, rec, now := g.deploymentOf(q.Name), q.Record, g.cfg.Now()
	if d.heldFrom.IsZero() {
		d.heldFrom = now
	}
	if q.holdsOther() {
		rec.HeldFor, rec.HeldSince = 0, nil
	}
	if passed := now.Sub(d.heldFrom); passed >= HoldStep {
		rec.HeldFor, d.heldFrom = rec.HeldFor+passed, now
	}
	if !q.Known {
		return false // without a mark the version cannot be stored
	}
	rec.Held = q.heldText()
	if rec.HeldSince == nil {
		since := now.UTC()
		rec.HeldSince = &since
	}
	return true
}

// MustWait reports whether the agent must first find out if the manager's list is from
// before a restore: before it carries out an order, before it treats an absence as an
// order, and before another object of the same name replaces the accepted one.
func (g *Guard) MustWait(q Request) bool {
	if q.Object == nil {
		return q.Missing && !q.Judged
	}
	// A deployment that the agent does not know is installed, but it may have been
	// removed before a restore.
	doubtful := q.unknown() && g.detector.isSuspect(q.Object.Name)
	another := q.Known && q.Object.UID != q.Record.UID && (q.Order != "" || q.Record.Applied != q.Object.Spec.DeploymentID)
	if (another || q.unknown() || q.Order != "") && !q.Judged {
		return true
	}
	return (another || doubtful) && !g.confirmed(q)
}

// Forget drops all state of a deployment.
func (g *Guard) Forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.deployments, name)
}

// deploymentOf returns the state of a deployment. The caller holds g.mu.
func (g *Guard) deploymentOf(name string) *deployment {
	d := g.deployments[name]
	if d == nil {
		d = &deployment{}
		g.deployments[name] = d
	}
	return d
}

// mayBeStale reports whether the manager's object of a deployment may be from before a
// restore.
func (g *Guard) mayBeStale(q Request) bool {
	same := q.Known && q.Object.UID == q.Record.UID
	switch {
	case same && q.Object.Generation < q.Record.Generation:
		return true
	case q.Order != "" && q.Order == q.Record.Revoked:
		return true
	case q.otherEpoch():
		return q.staleCopy()
	}
	said := requestText(q.Object)
	return (q.Order != "" || q.Known && !same) && (q.Record.Held == said || g.detector.wasInRestoredList(q.Object.Name, said))
}

// heldFor returns how long a request has been held: the recorded time, and the time
// that this process has measured since. It does not use the wall clock, so that a
// correction of that clock changes nothing.
func (d *deployment) heldFor(q Request, now time.Time) time.Duration {
	before := q.Record.HeldFor
	if q.holdsOther() {
		before = 0
	}
	if d.heldFrom.IsZero() {
		return before
	}
	return before + now.Sub(d.heldFrom)
}

// confirmed reports whether the manager has answered a check-in since an object was
// first seen that is not the accepted one. A list may arrive before the answer that
// says that the manager was copied, so that confirmed asks for a check-in.
func (g *Guard) confirmed(q Request) bool {
	if q.CheckIn == nil {
		return true
	}
	g.mu.Lock()
	d := g.deploymentOf(q.Name)
	first := d.replacedUID != q.Object.UID
	if first {
		d.replacedUID, d.asked = q.Object.UID, q.Answers
	}
	asked := d.asked
	g.mu.Unlock()
	if first {
		q.CheckIn()
	}
	return q.Answers > asked
}

// requestText returns a text of what a manager asks for with an object. The status,
// which the agent writes, is not part of it.
func requestText(bd *fleet.BundleDeployment) string {
	return fmt.Sprintf("%s/%d/%s", bd.UID, bd.Generation, bd.Annotations[fleet.AnnotationWithdrawn])
}

// MarkText returns "<id>/<epoch>" of the manager, as releases store it.
func MarkText(m registration.Mark) string {
	if m.ID == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", m.ID, m.Epoch)
}
