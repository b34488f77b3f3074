// Package deploy is the agent's main loop. For each BundleDeployment it observes the
// Helm release, decides one step (package release of pkg/plan), takes it, looks at the
// live objects, and reports once.
//
// The loop works with and without a manager: what the agent accepted before is kept in
// its store. The agent uninstalls a deployment only if the manager has marked it as
// withdrawn, never because an object is missing.
//
// The type reconciler knows the sequence of a run: snapshots gather, upgrades or
// withdrawals take steps on releases, package drift looks at the live objects, and
// reports write. What is remembered between two runs is in types with a mutex each. No
// part calls one above it: it asks for another run through the queue.
package deploy

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

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

// withDefaults sets the optional fields that are nil.
func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Predecessor == nil {
		c.Predecessor = func() string { return "" }
	}
	return c
}

// memory is what the parts remember of deployments, as functions that forget one.
type memory []func(name string)

// forget drops all state of a deployment.
func (m memory) forget(name string) {
	for _, f := range m {
		f(name)
	}
}

// Transform removes from a cached BundleDeployment what the agent does not need.
func Transform(bd *fleet.BundleDeployment) {
	bd.Spec.StagedOptions = fleet.BundleDeploymentOptions{}
}

// A Controller is the controller of the deployments of one agent, with those of its parts
// that others use.
type Controller struct {
	loop     *kube.Controller
	sessions *Sessions
	orphans  *Orphans
	kinds    *kinds
	acts     *stepReporter
}

// New makes a controller; it works while its Loop runs. ctx ends the watches that it
// opens.
func New(ctx context.Context, cfg Config) *Controller {
	cfg = cfg.withDefaults()
	run := &reconciler{}
	loop := kube.NewController("deploy", cfg.Workers, run.Reconcile)
	enqueue := func(name string) { loop.Add(kube.Key{Name: name}) }
	monitor := drift.New(ctx, drift.Config{
		Scope: cfg.Scope, Helm: cfg.Helm, Live: cfg.Live, Reader: cfg.Reader, Log: cfg.Log, Now: cfg.Now, OnDrift: cfg.OnDrift,
		Enqueue: func(name string, after time.Duration) { loop.AddAfter(kube.Key{Name: name}, after) },
	})
	guard := restoreguard.New(restoreguard.Config{
		Now: cfg.Now, Records: cfg.Store.All, OnRestored: cfg.OnRestored, KeepVersion: cfg.KeepVersion, LastVersion: cfg.LastVersion,
	})
	status, records, link, log := statuswriter.New(cfg.Now), records{cfg.Store}, newLink(), newFailureLog(cfg.Log)

	// What is known of deployments between two runs.
	attempts, acts, sharing := newAttempts(cfg.Now), newStepReporter(cfg.Now, cfg.OnAct), newSharing(cfg.Now, enqueue)
	dependencies := newDependencies(records, cfg.Now, enqueue)
	namespaces := newNamespaces(ctx, cfg, log, enqueue)
	orphans := &Orphans{helm: cfg.Helm, records: records, link: link, log: cfg.Log, now: cfg.Now, enqueue: enqueue}
	memory := memory{
		monitor.Forget, guard.Forget, status.Forget, dependencies.forget, sharing.forget, attempts.forget, acts.forget,
		log.forget, namespaces.forget, orphans.forget,
	}

	// What changes releases, or decides that they stay as they are.
	copies := &copies{helm: cfg.Helm, records: records}
	releases := &releases{
		helm: cfg.Helm, live: cfg.Live, to: cfg.Log, now: cfg.Now,
		payloads:     &payloads{records: records, registry: cfg.Registry, charts: cfg.Charts},
		dependencies: dependencies, copies: copies, sharing: sharing, drift: monitor, acts: acts,
	}
	holds := &holds{attempts: attempts, guard: guard, records: records}
	failures := &failures{releases: releases, records: records, attempts: attempts, sharing: sharing, log: log}
	former := &formerReleases{releases: releases, records: records, acts: acts}
	deletions := &deletions{link: link, records: records, guard: guard, enqueue: enqueue}

	*run = reconciler{
		snapshots: &snapshots{
			namespace: cfg.Namespace, predecessor: cfg.Predecessor, now: cfg.Now,
			link: link, guard: guard, records: records, attempts: attempts, sharing: sharing,
		},
		upgrades: &upgrades{
			releases: releases, namespaces: namespaces, holds: holds, failures: failures, attempts: attempts, acts: acts, drift: monitor,
		},
		withdrawals: &withdrawals{
			releases: releases, cleanup: &cleanup{former: former, copies: copies, namespaces: namespaces}, holds: holds, guard: guard,
			records: records, status: status, attempts: attempts, acts: acts, removals: newRemovalGate(cfg.Workers), memory: memory, link: link,
			log: cfg.Log, now: cfg.Now, enqueue: enqueue,
		},
		reports: &reports{
			status: status, records: records, copies: copies, former: former, dependencies: dependencies, sharing: sharing, acts: acts, enqueue: enqueue,
		},
		deletions: deletions, guard: guard, drift: monitor, acts: acts, memory: memory,
	}
	return &Controller{
		loop: loop, orphans: orphans, acts: acts, kinds: &kinds{helm: cfg.Helm, drift: monitor, attempts: attempts, enqueue: enqueue},
		sessions: &Sessions{
			link: link, guard: guard, records: records, dependencies: dependencies, deletions: deletions, status: status, enqueue: enqueue,
			now: cfg.Now,
		},
	}
}

// Loop returns the controller's queue and workers.
func (c *Controller) Loop() *kube.Controller { return c.loop }

// Sessions returns the part that uses the connection to the manager.
func (c *Controller) Sessions() *Sessions { return c.sessions }

// Orphans returns the part that knows the orphans.
func (c *Controller) Orphans() *Orphans { return c.orphans }

// KindChanged handles a CRD that was created, changed or deleted (gone).
func (c *Controller) KindChanged(crd string, gone bool) { c.kinds.onCRD(crd, gone) }

// States returns the number of deployments for each state, as they were looked at last.
func (c *Controller) States() map[fleet.BundleState]int { return c.acts.states() }
