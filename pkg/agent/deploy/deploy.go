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
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the loop.
const (
	// window is how long a status that is expected to change soon is held back, and how
	// often such a status is written at most.
	window = time.Second
	// lookAgain is after which time all objects of a deployment are looked at
	// without a change having been seen.
	lookAgain = 15 * time.Minute
	// unwatchedDelay is the same while a kind cannot be watched, because the
	// cluster does not serve it.
	unwatchedDelay = 10 * time.Second
	// slowAfter is when a deployment that is still under way is worth a check-in:
	// the manager waits two minutes for a sign of life, and check-ins may be
	// further apart.
	slowAfter = time.Minute
)

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
	Live Live
	// Reader reads live objects with the rights of a service account; see ReaderOf.
	// Nil: with the agent's own.
	Reader func(ctx context.Context, serviceAccount string) (Reader, error)
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

// Live is what the loop needs of the live objects; *kube.Live has it.
type Live interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error)
	ScopeOf(ctx context.Context, gvk schema.GroupVersionKind) (namespaced bool, err error)
	WatchMeta(ctx context.Context, gvk schema.GroupVersionKind, selector string,
		f func(old, changed *metav1.PartialObjectMetadata)) (stop func(), err error)
}

// A Reconciler works on the deployments of one agent.
type Reconciler struct {
	cfg     Config
	loop    *kube.Controller
	watches *watch.Watches

	namespaces *namespaces

	removals *gate
	before   predecessor
	guard    *restoreguard.Guard
	deleted  deletions

	session   atomic.Pointer[Session]
	mark      atomic.Pointer[registration.Mark]
	suspended atomic.Bool

	mu     sync.Mutex
	states map[string]*state // by name of the deployment
	// waiting are the deployments that wait for others, by name.
	waiting map[string]dependency.Node
	// names are deployments by the hash of their object set. All whose name begins
	// with "fleet-agent" share one set, as in the reference.
	names map[string]map[string]bool

	releases map[string]bool // bundle ids of all releases, as counted last
}

// state is what is known of a deployment and can be found out again.
type state struct {
	view  *view
	found finding      // at the end of the last run
	dirty map[ref]bool // objects to look at again
	all   bool         // or all of them

	turning bool                 // a run for the deployment is under way
	looking bool                 // the objects are being looked at
	missed  map[ref]watch.Change // changes that came meanwhile

	said     string    // about the last failure, to log it once
	tried    string    // the deployment id of the last attempt
	attempts int       // that failed in a row
	next     time.Time // when a permanent failure that may pass is tried again
	pending  time.Time // since when a passing status is held back
	written  time.Time // when a status was written last

	unreported []fleet.Condition // found while the manager was away
	reported   *Session          // that knows how the deployment is
	moving     bool              // and that it is about to change

	namespaceMeta namespaceMeta // what the release's namespace was given

	shared shared // objects that other bundles of the repository have

	fieldConflicts map[ref]*drift.Fight // objects that were corrected lately

	differed map[string]bool   // the objects that differed at the last look
	shown    fleet.BundleState // that the last run has ended in
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
	r := &Reconciler{cfg: cfg, states: map[string]*state{}, names: map[string]map[string]bool{}, removals: newGate(cfg.Workers)}
	r.guard = restoreguard.New(restoreguard.Config{
		Now: cfg.Now, Records: cfg.Store.All, OnRestored: cfg.OnRestored, KeepVersion: cfg.KeepVersion, LastVersion: cfg.LastVersion,
	})
	r.mark.Store(&registration.Mark{})
	r.loop = kube.NewController("deploy", cfg.Workers, r.Reconcile)
	r.watches = watch.New(ctx, cfg.Live, r.changed)
	r.namespaces = &namespaces{ctx: ctx, cache: cfg.Namespaces, uses: map[string]string{}}
	if cfg.Namespaces != nil {
		cfg.Namespaces.OnError(func(error) {}) // tried again by the cache; deployments wait meanwhile
		cfg.Namespaces.OnChange(r.namespaceChanged)
	}
	return r
}

// Loop returns the controller with the queue and the workers.
func (r *Reconciler) Loop() *kube.Controller { return r.loop }

// Watches returns the watches of the live objects.
func (r *Reconciler) Watches() *watch.Watches { return r.watches }

// Attach hands the loop a connection to the manager, or a newer one. Its cache enqueues
// deployments from then on.
func (r *Reconciler) Attach(s *Session) {
	s.Deployments.OnChange(func(old, changed *fleet.BundleDeployment) { r.wake(s, old, changed) })
	s.Deployments.OnWatchedDeletion(func(last *fleet.BundleDeployment) { r.watchedDeletion(s, last) })
	r.session.Store(s)
}

// SetManager sets the manager that the agent belongs to, as far as it is known.
func (r *Reconciler) SetManager(m registration.Mark) { r.mark.Store(&m) }

// Answered is SetManager for a manager that has just answered a check-in.
func (r *Reconciler) Answered(m registration.Mark) {
	r.SetManager(m)
	r.guard.Answered()
}

// Suspend stops all changes, as long as another agent with the same identity
// is the older one.
func (r *Reconciler) Suspend(on bool) {
	if r.suspended.Swap(on) != on && !on {
		r.WakeAll()
	}
}

// WakeAll enqueues every deployment that the manager has or the agent accepted.
func (r *Reconciler) WakeAll() {
	for _, rec := range r.cfg.Store.All() {
		r.loop.Add(kube.Key{Name: rec.Key.Name})
	}
	if s := r.session.Load(); s != nil {
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
	r.reported(old, changed)
	if changed == nil {
		r.loop.Add(kube.Key{Name: old.Name})
		return
	}
	r.guard.Observe(*r.mark.Load(), old, changed)
	if old != nil && old.UID == changed.UID && old.Generation == changed.Generation &&
		maps.Equal(old.Annotations, changed.Annotations) && maps.Equal(old.Labels, changed.Labels) {
		return // the agent's own report
	}
	r.loop.Add(kube.Key{Name: changed.Name})
	if old != nil && old.Annotations[fleet.AnnotationWithdrawn] != changed.Annotations[fleet.AnnotationWithdrawn] {
		r.wakeSiblings(s, changed, func(*fleet.BundleDeployment) bool { return true })
	}
}

// wakeSiblings looks at other deployments of the same repository.
func (r *Reconciler) wakeSiblings(s *Session, of *fleet.BundleDeployment, which func(*fleet.BundleDeployment) bool) {
	for _, bd := range s.Deployments.List("") {
		if bd.Name != of.Name && sameRepository(bd.Labels, of.Labels) && which(bd) {
			r.loop.Add(kube.Key{Name: bd.Name})
		}
	}
}

// sameRepository reports whether two deployments are made from the same GitRepo
// or HelmOp.
func sameRepository(a, b map[string]string) bool {
	if a[fleet.LabelBundleNamespace] != b[fleet.LabelBundleNamespace] {
		return false
	}
	repo, op := a[fleet.LabelRepoName], a[fleet.LabelHelmOpName]
	return repo != "" && repo == b[fleet.LabelRepoName] || op != "" && op == b[fleet.LabelHelmOpName]
}

// setHash is the label value of a deployment's objects.
func (r *Reconciler) setHash(name string) string {
	return naming.ObjectSetHash(naming.ObjectSetID(name, r.cfg.Scope))
}

// stateOf is the state of a deployment; it is made if there is none.
func (r *Reconciler) stateOf(name string) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.states[name]
	if st == nil {
		st = &state{dirty: map[ref]bool{}, missed: map[ref]watch.Change{}, fieldConflicts: map[ref]*drift.Fight{}}
		r.states[name] = st
		set := r.setHash(name)
		if r.names[set] == nil {
			r.names[set] = map[string]bool{}
		}
		r.names[set][name] = true
	}
	return st
}

// forget ends the agent's interest in a deployment.
func (r *Reconciler) forget(name string) {
	r.watches.Set(name, nil)
	r.namespaces.unused(name)
	r.guard.Forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, name)
	delete(r.waiting, name)
	set := r.setHash(name)
	if delete(r.names[set], name); len(r.names[set]) == 0 {
		delete(r.names, set)
	}
	delete(r.releases, name)
}

// KindChanged is called when a CRD is created, changed or deleted.
func (r *Reconciler) KindChanged(crd string, gone bool) {
	r.cfg.Helm.Refresh()
	if gone {
		r.watches.CRDGone(crd)
		return
	}
	r.watches.CRDThere(crd)
	r.mu.Lock()
	var waiting []string
	for name, st := range r.states {
		unwatched := st.view != nil && st.view.unwatched
		st.all = st.all || unwatched
		if st.attempts > 0 || unwatched {
			waiting = append(waiting, name)
		}
	}
	r.mu.Unlock()
	for _, name := range waiting {
		r.loop.Add(kube.Key{Name: name})
	}
}

// ref names a live object.
type ref struct {
	kind schema.GroupVersionKind
	key  kube.Key
}
