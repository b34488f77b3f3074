// Package workspace has the loops that connect Fleet to Rancher, if Rancher's kinds
// exist in the manager's cluster: they create Fleet's Clusters for Rancher's clusters,
// namespaces for FleetWorkspaces, and rights for GlobalRoles, and they protect
// workspaces with clusters from deletion. The decisions are in pkg/plan/workspace.
//
// While Rancher itself does that, the loops only watch. Without Rancher's kinds they
// wait until these exist. They change single fields of Rancher's objects by patches.
package workspace

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// LeaseName is the lease that the manager works under.
const LeaseName = "fleet-workspace-lock"

// process is the name of the manager in events.
const process = "workspace"

// Config configures the manager.
type Config struct {
	Mode plan.Mode
	Now  func() time.Time                           // the clock; time.Now where nil
	Look time.Duration                              // how often the manager checks for Rancher; 15 s if 0
	Fail func(loop string, key kube.Key, err error) // gets every failed run
}

// A Manager is the loops of this package. Make it with New, and Run it.
type Manager struct {
	cfg    Config
	client *kube.Client
	log    *logrus.Entry
	crds   *metaCache
	change chan struct{} // the CustomResourceDefinitions have changed
	events *kube.Recorder
}

type (
	meta      = metav1.PartialObjectMetadata
	metaCache = kube.Cache[*meta]
)

// kinds are the CustomResourceDefinitions that the manager cannot work without.
var kinds = []string{
	"clusters.management.cattle.io", "settings.management.cattle.io", "features.management.cattle.io", "clusters.provisioning.cattle.io",
}

// kindWorkspace is the kind of workspaces, which Rancher installs only with its feature
// fleet. Without it clusters are mapped all the same, into namespaces that are there.
const kindWorkspace = "fleetworkspaces.management.cattle.io"

// optional are those that it works with where they are there.
var optional = []string{kindWorkspace, kindClusterAPI, kindGlobalRole, kindGlobalGrant}

// New builds the manager; it sends no request before it runs.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Manager {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Look == 0 {
		cfg.Look = 15 * time.Second
	}
	h := &Manager{cfg: cfg, client: c, log: log, change: make(chan struct{}, 1), events: kube.NewRecorder(c, process)}
	h.crds = kube.NewMetaCache(c.Loop(process), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), kube.Watch{}, func(m *meta) {
		m.Labels, m.Annotations, m.OwnerReferences = nil, nil, nil
	})
	h.crds.OnChange(func(_, _ *meta) { signal(h.change) })
	return h
}

// Runnables returns what kube.Run runs.
func (m *Manager) Runnables() []kube.Runner { return []kube.Runner{m.crds, m.events, m} }

// Run runs the loops while Rancher's kinds exist, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		seen := m.servedKinds()
		if seen == nil {
			if !waitSignal(ctx, m.change) {
				return nil
			}
			continue
		}
		if err := m.runLoops(ctx, seen); err != nil {
			return err
		}
	}
	return nil
}

// servedKinds returns the kinds that exist, by the names of their CRDs; nil if a
// required kind is missing.
func (m *Manager) servedKinds() map[string]bool {
	out := map[string]bool{}
	for _, name := range kinds {
		if _, ok := m.crds.Get(kube.Key{Name: name}); !ok {
			return nil
		}
		out[name] = true
	}
	for _, name := range optional {
		if _, ok := m.crds.Get(kube.Key{Name: name}); ok {
			out[name] = true
		}
	}
	return out
}

// runLoops runs the loops until ctx ends, or until a kind is created or deleted.
func (m *Manager) runLoops(ctx context.Context, seen map[string]bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for maps.Equal(seen, m.servedKinds()) {
			if !waitSignal(ctx, m.change) {
				return
			}
		}
		m.log.Info("Rancher's kinds have changed")
		stop()
	})
	defer watcher.Wait()
	defer stop()
	s, err := m.open(ctx, seen)
	if err != nil {
		m.log.WithError(err).Warn("Rancher's kinds cannot be read yet")
		_ = kube.Sleep(ctx, lookAgain) // ends early if the manager ends
		return nil
	}
	m.log.Info("Rancher's kinds are there")
	return kube.Run(ctx, m.cfg.Fail, s.runnables()...)
}

// ports are the dependencies of the loops: each takes those that it needs.
type ports struct {
	client *kube.Client
	log    *logrus.Entry
	events *kube.Recorder
	mode   plan.Mode
	now    func() time.Time
	served map[string]bool // the kinds that are there, by the names of their definitions
	part   *part
	view   *caches
	wake   func() // enqueues all objects of every loop
}

// A loopSet is what runs while Rancher's kinds are there.
type loopSet struct {
	view       *caches
	capi       clusterAPI
	presence   *presence
	clusters   *clusterLoop
	assign     *assignLoop
	namespaces *namespaceLoop // nil without the kind of workspaces
	deletions  *deletionLoop
	rights     *rightsLoops // nil where Rancher always maps
}

// open makes the loops for the kinds that exist. The loops do nothing before part is
// set.
func (m *Manager) open(ctx context.Context, seen map[string]bool) (*loopSet, error) {
	c := m.client.Loop(process)
	s := &loopSet{view: newCaches(c)}
	p := ports{
		client: m.client, log: m.log, events: m.events, mode: m.cfg.Mode, now: m.cfg.Now, served: seen,
		part: newPart(), view: s.view, wake: s.enqueueAll,
	}
	var err error
	if s.capi, err = openClusterAPI(ctx, seen[kindClusterAPI], c); err != nil {
		return nil, err
	}
	s.clusters, s.assign, s.deletions = newClusterLoop(p), newAssignLoop(p), newDeletionLoop(p)
	if seen[kindWorkspace] {
		s.namespaces = newNamespaceLoop(p, s.capi)
	}
	if m.cfg.Mode != plan.WithRancher { // the loops give no rights then, and may not read roles
		s.rights = newRightsLoops(p)
	}
	s.presence = newPresence(p, m.cfg.Look, s.rights.enqueueAll)
	return s, nil
}

func (s *loopSet) runnables() []kube.Runner {
	parts := append(s.view.runnables(), s.presence, s.clusters.loop, s.assign.loop, s.deletions.loop)
	if s.namespaces != nil {
		parts = append(parts, s.view.workspaces, s.namespaces.loop)
	}
	parts = append(parts, s.rights.runnables()...)
	if s.capi.cache != nil {
		parts = append(parts, kube.RunnerFunc(s.capi.cache.Run)) // not waited for
	}
	return parts
}

// enqueueAll enqueues all objects of every loop.
func (s *loopSet) enqueueAll() {
	s.rights.enqueueAll()
	s.deletions.enqueueAll()
	s.namespaces.enqueueAll()
	s.clusters.enqueueAll()
	s.assign.enqueueAll()
}
