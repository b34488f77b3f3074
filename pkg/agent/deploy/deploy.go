// Package deploy is the agent's main loop. For each BundleDeployment it
// observes the Helm release, decides one step, takes it, looks at the live
// objects, and reports once.
//
// The loop works with and without a manager: what was accepted before is kept
// in the agent's store. Nothing is ever removed because something is missing;
// only the mark of an order to withdraw makes it uninstall.
package deploy

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// slowAfter is when a deployment that is still under way is worth a check-in: the
// manager waits two minutes for a heartbeat, and check-ins may be further apart.
const slowAfter = time.Minute

// A Session is the connection to the manager, once the agent has one.
type Session struct {
	Namespace   string // of the BundleDeployments
	Deployments *kube.Cache[*fleet.BundleDeployment]
	Statuses    *kube.Store[*fleet.BundleDeployment]
	Contents    *kube.Store[*fleet.Content]
	Secrets     *kube.Store[*corev1.Secret]
	ConfigMaps  *kube.Store[*corev1.ConfigMap]
	// CheckIn, where not nil, sends a check-in to the manager at once.
	CheckIn func()
	// Away, where not nil, reports whether the manager is known to be away. The creator
	// of the session enqueues every deployment when it is back.
	Away func() bool
}

// Config configures the loop: the agent's namespace and its tools.
type Config struct {
	Namespace string // the agent's own
	Scope     string // distinguishes the objects of several agents of one cluster
	Workers   int    // deployments worked on at once
	// Predecessor, where not nil, is the namespace of an agent whose releases are
	// taken over once it is gone; empty: of none.
	Predecessor func() string

	Helm *helm.Client
	Live drift.Live
	// Reader reads live objects with the rights of a service account; see drift.ReaderOf.
	// Nil: with the agent's own.
	Reader func(ctx context.Context, serviceAccount string) (drift.Reader, error)
	// Namespaces holds the metadata of all namespaces once the loop has started
	// it. Nil: deployments restricted by labels are not deployed.
	Namespaces *kube.Cache[*metav1.PartialObjectMetadata]
	Registry   Registry
	Charts     Charts
	Store      *store.Store
	Log        *logrus.Entry
	Now        func() time.Time // time.Now where nil

	// OnRestored, where not nil, is called when the manager's API server has become
	// older than it was, as after a restore from a backup.
	OnRestored func()
	// KeepVersion, where not nil, keeps the highest version that was seen of the
	// manager's objects for the next run of the agent, which LastVersion returns it
	// to. It is called when a deployment was removed.
	KeepVersion func(string)
	LastVersion func() string
	// OnAct, where not nil, is called for every step; OnDrift with the number of
	// objects that newly differ.
	OnAct   func(Act)
	OnDrift func(objects int)
}

// link is the present session with the manager, and what is known of the manager.
type link struct {
	session atomic.Pointer[Session]           // nil: the agent never reached its manager
	mark    atomic.Pointer[registration.Mark] // of the manager that the agent belongs to
	// suspended: another agent with the same identity is the older one.
	suspended atomic.Bool
}

func newLink() *link {
	l := &link{}
	l.mark.Store(&registration.Mark{})
	return l
}

// memory is what the parts remember of deployments, as functions that forget one.
type memory []func(name string)

// forget ends the agent's interest in a deployment.
func (m memory) forget(name string) {
	for _, f := range m {
		f(name)
	}
}

// A Reconciler works on the deployments of one agent.
type Reconciler struct {
	cfg  Config
	loop *kube.Controller

	guard  *restoreguard.Guard
	drift  *drift.Monitor
	status *statuswriter.Writer

	records      records
	snapshots    *snapshots
	reports      *reports
	releases     *releases
	holds        *holds
	upgrades     *upgrades
	withdrawals  *withdrawals
	former       *formerReleases
	copies       *copies
	dependencies *dependencies
	sharing      *sharing
	attempts     *attempts
	acts         *acts
	failures     *failures
	failureLog   *failureLog
	namespaces   *namespaces

	deletions *deletions
	orphans   *Orphans

	link    *link
	memory  memory
	enqueue func(name string)
}

// timeout begins a deployment, and returns the function that ends it. A deployment that
// takes longer than slowAfter sends one check-in, so that the manager does not take a
// busy agent for a silent one.
func (s *Session) timeout() (end func()) {
	if s == nil || s.CheckIn == nil {
		return func() {}
	}
	t := time.AfterFunc(slowAfter, s.CheckIn)
	return func() { t.Stop() }
}

// New makes a reconciler; it works while its Loop runs. ctx is that of the
// watches that it opens.
func New(ctx context.Context, cfg Config) *Reconciler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Predecessor == nil {
		cfg.Predecessor = func() string { return "" }
	}
	r := &Reconciler{cfg: cfg, link: newLink()}
	r.guard = restoreguard.New(restoreguard.Config{
		Now: cfg.Now, Records: cfg.Store.All, OnRestored: cfg.OnRestored, KeepVersion: cfg.KeepVersion, LastVersion: cfg.LastVersion,
	})
	r.loop = kube.NewController("deploy", cfg.Workers, r.Reconcile)
	enqueue := func(name string) { r.loop.Add(kube.Key{Name: name}) }
	r.enqueue = enqueue
	r.records = records{cfg.Store}
	r.copies = &copies{helm: cfg.Helm, store: cfg.Store}
	r.dependencies = newDependencies(r.records, cfg.Now, enqueue)
	r.sharing = newSharing(cfg.Now, enqueue)
	r.attempts = newAttempts(cfg.Now)
	r.acts = newActs(cfg.Now, cfg.OnAct)
	r.failureLog = newFailureLog(cfg.Log)
	r.namespaces = newNamespaces(ctx, cfg, r.failureLog, enqueue)
	r.deletions = &deletions{link: r.link, records: r.records, guard: r.guard, enqueue: enqueue}
	r.orphans = &Orphans{helm: cfg.Helm, records: r.records, link: r.link, log: cfg.Log, now: cfg.Now, enqueue: enqueue}
	r.status = statuswriter.New(cfg.Now)
	r.drift = drift.New(ctx, drift.Config{
		Scope: cfg.Scope, Helm: cfg.Helm, Live: cfg.Live, Reader: cfg.Reader, Log: cfg.Log, Now: cfg.Now, OnDrift: cfg.OnDrift,
		Enqueue: func(name string, after time.Duration) { r.loop.AddAfter(kube.Key{Name: name}, after) },
	})
	r.releases = &releases{
		helm: cfg.Helm, live: cfg.Live, to: cfg.Log, now: cfg.Now,
		payloads:     &payloads{records: r.records, registry: cfg.Registry, charts: cfg.Charts},
		dependencies: r.dependencies, copies: r.copies, sharing: r.sharing, drift: r.drift, acts: r.acts,
	}
	r.failures = &failures{releases: r.releases, records: r.records, attempts: r.attempts, sharing: r.sharing, log: r.failureLog}
	r.memory = memory{
		r.drift.Forget, r.guard.Forget, r.status.Forget, r.dependencies.forget, r.sharing.forget, r.attempts.forget, r.acts.forget,
		r.failureLog.forget, r.namespaces.forget, r.orphans.forget,
	}
	r.holds = &holds{attempts: r.attempts, guard: r.guard, records: r.records}
	r.upgrades = &upgrades{
		releases: r.releases, namespaces: r.namespaces, holds: r.holds, failures: r.failures, attempts: r.attempts, acts: r.acts, drift: r.drift,
	}
	r.former = &formerReleases{releases: r.releases, records: r.records, acts: r.acts}
	r.withdrawals = &withdrawals{
		releases: r.releases, cleanup: &cleanup{former: r.former, copies: r.copies, namespaces: r.namespaces},
		holds: r.holds, guard: r.guard, records: r.records, status: r.status, attempts: r.attempts, acts: r.acts, removals: newGate(cfg.Workers), memory: r.memory, link: r.link,
		log: cfg.Log, now: cfg.Now, enqueue: enqueue,
	}
	r.snapshots = &snapshots{
		namespace: cfg.Namespace, predecessor: cfg.Predecessor, now: cfg.Now,
		link: r.link, guard: r.guard, records: r.records, attempts: r.attempts, sharing: r.sharing,
	}
	r.reports = &reports{
		status: r.status, records: r.records, copies: r.copies, former: r.former, dependencies: r.dependencies, sharing: r.sharing,
		acts: r.acts, enqueue: enqueue,
	}
	return r
}

// Loop returns the controller with the queue and the workers.
func (r *Reconciler) Loop() *kube.Controller { return r.loop }

// Orphans returns the part that knows the deployments that the manager no longer has.
func (r *Reconciler) Orphans() *Orphans { return r.orphans }

// Attach hands the loop a connection to the manager, or a newer one. Its cache enqueues
// deployments from then on.
func (r *Reconciler) Attach(s *Session) {
	s.Deployments.OnChange(func(old, changed *fleet.BundleDeployment) { r.wake(s, old, changed) })
	s.Deployments.OnWatchedDeletion(func(last *fleet.BundleDeployment) { r.deletions.watched(s, last) })
	r.link.session.Store(s)
}

// SetManager sets the manager that the agent belongs to, as far as it is known.
func (r *Reconciler) SetManager(m registration.Mark) { r.link.mark.Store(&m) }

// Answered is SetManager for a manager that has just answered a check-in.
func (r *Reconciler) Answered(m registration.Mark) {
	r.SetManager(m)
	r.guard.Answered()
}

// Suspend stops all changes, as long as another agent with the same identity
// is the older one.
func (r *Reconciler) Suspend(on bool) {
	if r.link.suspended.Swap(on) != on && !on {
		r.WakeAll()
	}
}

// WakeAll enqueues every deployment that the manager has or the agent accepted.
func (r *Reconciler) WakeAll() {
	for _, rec := range r.cfg.Store.All() {
		r.loop.Add(kube.Key{Name: rec.Key.Name})
	}
	if s := r.link.session.Load(); s != nil {
		for _, bd := range s.Deployments.List("") {
			r.loop.Add(kube.Key{Name: bd.Name})
		}
	}
}

// Transform removes from a cached BundleDeployment what the agent does not need.
func Transform(bd *fleet.BundleDeployment) {
	bd.Spec.StagedOptions = fleet.BundleDeploymentOptions{}
}

// wake enqueues a changed BundleDeployment. If it is withdrawn or comes back, the
// others of its repository are concerned too.
func (r *Reconciler) wake(s *Session, old, changed *fleet.BundleDeployment) {
	r.dependencies.reported(old, changed)
	if changed == nil {
		r.loop.Add(kube.Key{Name: old.Name})
		return
	}
	r.guard.Observe(*r.link.mark.Load(), old, changed)
	if old != nil && old.UID == changed.UID && old.Generation == changed.Generation &&
		maps.Equal(old.Annotations, changed.Annotations) && maps.Equal(old.Labels, changed.Labels) {
		return // the agent's own report
	}
	r.loop.Add(kube.Key{Name: changed.Name})
	if old != nil && old.Annotations[fleet.AnnotationWithdrawn] != changed.Annotations[fleet.AnnotationWithdrawn] {
		enqueueSiblings(s, changed, anySibling, r.enqueue)
	}
}

// enqueueSiblings enqueues other deployments of the same repository.
func enqueueSiblings(s *Session, of *fleet.BundleDeployment, which func(*fleet.BundleDeployment) bool, enqueue func(name string)) {
	for _, bd := range s.Deployments.List("") {
		if bd.Name != of.Name && sameRepository(bd.Labels, of.Labels) && which(bd) {
			enqueue(bd.Name)
		}
	}
}

func anySibling(*fleet.BundleDeployment) bool { return true }

// sameRepository reports whether two deployments are made from the same GitRepo
// or HelmOp.
func sameRepository(a, b map[string]string) bool {
	if a[fleet.LabelBundleNamespace] != b[fleet.LabelBundleNamespace] {
		return false
	}
	repo, op := a[fleet.LabelRepoName], a[fleet.LabelHelmOpName]
	return repo != "" && repo == b[fleet.LabelRepoName] || op != "" && op == b[fleet.LabelHelmOpName]
}

// KindChanged is called when a CRD is created, changed or deleted. A deployment that
// failed is tried again when a kind is there.
func (r *Reconciler) KindChanged(crd string, gone bool) {
	r.cfg.Helm.Refresh()
	r.drift.KindChanged(crd, gone)
	if gone {
		return
	}
	for _, name := range r.attempts.failing() {
		r.loop.Add(kube.Key{Name: name})
	}
}

// States returns the number of deployments for each state, as they were looked at last.
func (r *Reconciler) States() map[fleet.BundleState]int { return r.acts.states() }
