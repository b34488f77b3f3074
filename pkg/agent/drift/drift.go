// Package drift looks at the live objects of releases, corrects their drift, and
// watches them. Packages drift and health of pkg/plan decide what has drifted and what
// is healthy.
//
// A Monitor is used by the runs of one loop: a run begins with Begin, looks with
// Inspect, and corrects with Correct. There is at most one run at a time for each
// deployment. Between two runs the Monitor enqueues a deployment when one of its
// objects changes in a way that may concern it.
package drift

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

const (
	// LookAgain is after which time all objects of a deployment are looked at
	// without a change having been seen.
	LookAgain = 15 * time.Minute
	// unwatchedDelay is the same while a kind cannot be watched, because the
	// cluster does not serve it.
	unwatchedDelay = 10 * time.Second
)

// Live is what the package needs of the live objects; *kube.Live has it.
type Live interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error)
	ScopeOf(ctx context.Context, gvk schema.GroupVersionKind) (namespaced bool, err error)
	WatchMeta(ctx context.Context, gvk schema.GroupVersionKind, selector string,
		f func(old, changed *metav1.PartialObjectMetadata)) (stop func(), err error)
}

// Releases is what the package needs of the releases; *helm.Client has it.
type Releases interface {
	Observe(ctx context.Context, id release.ID) (release.Observed, error)
	Complete(ctx context.Context, o *release.Observed) error
	Correct(ctx context.Context, id release.ID, r helm.Rights, c helm.Correction) error
	Claims(ctx context.Context, id release.ID) (helm.Claims, error)
}

// Config configures a Monitor.
type Config struct {
	Scope string // distinguishes the objects of several agents of one cluster
	Helm  Releases
	Live  Live
	// Reader reads live objects with the rights of a service account; see ReaderOf.
	// Nil: with the agent's own.
	Reader func(ctx context.Context, serviceAccount string) (Reader, error)
	Log    *logrus.Entry
	Now    func() time.Time
	// Enqueue asks for a run for a deployment after a time.
	Enqueue func(name string, after time.Duration)
	// OnDrift, where not nil, is called with the number of objects that newly differ.
	OnDrift func(objects int)
}

// A Monitor knows the live objects of the deployments of one agent. It is safe for
// concurrent use.
type Monitor struct {
	cfg     Config
	watches *watch.Watches

	mu          sync.Mutex
	deployments map[string]*deployment // by name
	// names are deployments by the hash of their object set. All whose name begins
	// with "fleet-agent" share one set, as in rancher/fleet.
	names map[string]map[string]bool
}

// deployment is what is known of the live objects of one deployment.
type deployment struct {
	view  *view
	dirty map[ref]bool // objects to look at again
	all   bool         // or all of them

	turning bool                 // a run for the deployment is under way
	looking bool                 // the objects are being looked at
	missed  map[ref]watch.Change // changes that came meanwhile

	fieldConflicts map[ref]*drift.CorrectionHistory // objects that were corrected lately
	differed       map[string]bool                  // the objects that differed at the last look
}

// A Release is the release of a deployment as a run of the loop knows it.
type Release struct {
	Name string // of the deployment
	Spec fleet.BundleDeploymentSpec
	// Observed is completed by Inspect, and observed again by Correct.
	Observed *release.Observed
	// Reported are the differences that the status names, for an object that this
	// process has not looked at yet.
	Reported []fleet.ModifiedStatus
	Failed   bool // the last step has failed, or waits
}

// New makes a monitor. ctx ends the watches that it opens.
func New(ctx context.Context, cfg Config) *Monitor {
	m := &Monitor{cfg: cfg, deployments: map[string]*deployment{}, names: map[string]map[string]bool{}}
	m.watches = watch.New(ctx, cfg.Live, m.onWatchEvent)
	return m
}

// Ignore drops what was read of a deployment, and ends its watches. Its next check
// reads everything.
func (m *Monitor) Ignore(name string) {
	m.watches.Set(name, nil)
	d := m.deploymentOf(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	d.view = nil
}

// Forget drops all state of a deployment.
func (m *Monitor) Forget(name string) {
	m.watches.Set(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.deployments, name)
	set := m.setHash(name)
	if delete(m.names[set], name); len(m.names[set]) == 0 {
		delete(m.names, set)
	}
}

// LookAtAll makes the next check of a deployment read all objects.
func (m *Monitor) LookAtAll(name string) {
	d := m.deploymentOf(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	d.all = true
}

// Next returns after which time a deployment is checked again without a change of its
// objects.
func (m *Monitor) Next(name string) time.Duration {
	d := m.deploymentOf(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.view == nil || !d.view.unwatched {
		return LookAgain
	}
	d.all = true
	return unwatchedDelay
}

// KindChanged handles a CRD that was created, changed or deleted (gone). It enqueues
// the deployments with an object of a kind that could not be watched.
func (m *Monitor) KindChanged(crd string, gone bool) {
	if gone {
		m.watches.CRDGone(crd)
		return
	}
	m.watches.CRDThere(crd)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, d := range m.deployments {
		if d.view != nil && d.view.unwatched {
			d.all = true
			m.cfg.Enqueue(name, 0)
		}
	}
}

// setHash returns the label value of a deployment's objects.
func (m *Monitor) setHash(name string) string {
	return naming.ObjectSetHash(naming.ObjectSetID(name, m.cfg.Scope))
}

// deploymentOf returns the state of a deployment, and makes it if there is none.
func (m *Monitor) deploymentOf(name string) *deployment {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.deployments[name]
	if d == nil {
		d = &deployment{dirty: map[ref]bool{}, missed: map[ref]watch.Change{}, fieldConflicts: map[ref]*drift.CorrectionHistory{}}
		m.deployments[name] = d
		set := m.setHash(name)
		if m.names[set] == nil {
			m.names[set] = map[string]bool{}
		}
		m.names[set][name] = true
	}
	return d
}

// ref names a live object.
type ref struct {
	kind schema.GroupVersionKind
	key  kube.Key
}
