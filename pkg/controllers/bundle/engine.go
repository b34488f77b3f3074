// Package bundle is the engine of the management cluster: it brings the
// deployments of every Bundle in line with its targets, orders withdrawals,
// and writes the status of Bundles, GitRepos, Clusters and ClusterGroups from
// one table.
//
// Handlers of watches update the table and enqueue keys; loops read, decide in
// pkg/plan, write and report. At rest nothing is written.
package bundle

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/display"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Config configures the engine.
type Config struct {
	// Namespace is where Fleet itself runs.
	Namespace string
	// ManagerID is the id of this installation.
	ManagerID string
	// CheckinInterval is the interval of agents that have no other instruction. After 3
	// missed check-ins a cluster is Offline; see package heartbeat.
	CheckinInterval time.Duration
	// ContentGrace is how long a content is kept that no object holds; 10 minutes where
	// 0.
	ContentGrace time.Duration
	// Workers is how many Bundles are worked on at once.
	Workers int
	// Scope is what this manager looks after; the zero Scope if it is the only manager.
	Scope scope.Scope
	// RequireDownstreamLabel: only objects with LabelDownstreamResource are copied.
	RequireDownstreamLabel bool
	// Registry deletes what is in registries; a plain oci.Client where nil.
	Registry Registry
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// How long changes to transitional states are collected before they are written.
//
// Deployments of one Bundle change together. A repository does not wait: that it
// is not Ready any more must be known at once. A Cluster waits longer: a Bundle
// that comes to it is on its way for a moment only, and there are as many
// Clusters as deployments of a Bundle.
var (
	bundlePace  = pace{settle: 50 * time.Millisecond, timeout: 50 * time.Millisecond}
	repoPace    = pace{}
	clusterPace = pace{settle: time.Second, timeout: 30 * time.Second, spare: 10}
)

// An Engine is the loops of this package and what they share.
type Engine struct {
	cfg   Config
	log   *logrus.Entry
	table *fleetstate.State
	now   func() time.Time

	client      *kube.Client
	bundles     *kube.Store[*fleet.Bundle]
	deployments *kube.Store[*fleet.BundleDeployment]
	clusters    *kube.Store[*fleet.Cluster]
	groups      *kube.Store[*fleet.ClusterGroup]
	repos       *kube.Store[*fleet.GitRepo]
	contents    *kube.Store[*fleet.Content]
	secrets     *kube.Store[*corev1.Secret]
	configMaps  *kube.Store[*corev1.ConfigMap]
	namespaces  *kube.Store[*corev1.Namespace]
	events      *kube.Recorder

	cache               caches
	bundleController    *kube.Controller // Bundles
	deletionController  *kube.Controller // BundleDeployments on their way out
	heartbeatController *kube.Controller // Clusters: who is offline?
	silenceController   *kube.Controller // Bundles: who does not answer?
	sweep               *kube.Controller // Contents
	pruner              *kube.Controller // GitRepos whose Bundles are asked to go, or whose releases would be replaced
	copyController      *kube.Controller // copies of what deployments take along
	moveController      *kube.Controller // Clusters that have moved to another workspace
	deleter             *kube.Controller // namespaces of Bundles that are being deleted
	status              map[string]*reporter
	displays            *display.Controller
	slots               *slots
	lists               *lists
	deletionBudget      *deletionBudget
	sources             *sources

	deletions *deletions

	mu         sync.Mutex
	kits       map[kube.Key]*compiledEntry
	memos      map[kube.Key]map[kube.Key]versionCache
	paces      map[kube.Key]withdrawal.Pace
	orphans    map[kube.Key]time.Time
	unused     map[string]idle    // contents and credentials that no object holds
	lost       map[kube.Key]bool  // deployments that have to be written again
	writing    map[kube.Key]bool  // deployments that are being written
	waiting    map[kube.Key]bool  // Bundles whose withdrawals wait for siblings
	unfinished map[kube.Key]*work // decisions that are not carried out yet
}

// caches are the informers of the engine.
type caches struct {
	bundles     *kube.Cache[*fleet.Bundle]
	deployments *kube.Cache[*fleet.BundleDeployment]
	clusters    *kube.Cache[*fleet.Cluster]
	groups      *kube.Cache[*fleet.ClusterGroup]
	repos       *kube.Cache[*fleet.GitRepo]
	contents    *kube.Cache[*metav1.PartialObjectMetadata]
	secrets     *kube.Cache[*metav1.PartialObjectMetadata]
	configMaps  *kube.Cache[*metav1.PartialObjectMetadata] // copies
	brake       *kube.Cache[*corev1.ConfigMap]
	limits      map[string]*kube.Cache[*metav1.PartialObjectMetadata] // by kind
	mapped      mappingCaches
	owned       *kube.Cache[*metav1.PartialObjectMetadata] // namespaces of clusters; nil: see followNamespaces
}

// A compiledEntry is a compiled Bundle and the values that it was compiled with.
type compiledEntry struct {
	compiled *deployment.Compiled
	values   map[string][]byte
	hash     string
}

// A versionCache remembers what was worked out for a pair that needed no write.
type versionCache struct {
	inputs, id, outcome string
	release             release.ID
}

// New prepares the engine; it sends no request before its parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Engine {
	if cfg.Workers < 1 {
		cfg.Workers = 8
	}
	if cfg.ContentGrace <= 0 {
		cfg.ContentGrace = contentGrace
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Registry == nil {
		cfg.Registry = oci.New(oci.Config{UserAgent: "fleet-controller"})
	}
	e := &Engine{
		cfg: cfg, log: log, now: cfg.Now,
		table:          fleetstate.New(cfg.ManagerID, cfg.CheckinInterval, cfg.Now),
		events:         kube.NewRecorder(c, "fleet-controller"),
		slots:          newSlots(cfg.Now),
		lists:          newLists(),
		deletionBudget: newDeletionBudget(),
		deletions:      newDeletions(),
		kits:           map[kube.Key]*compiledEntry{},
		memos:          map[kube.Key]map[kube.Key]versionCache{},
		paces:          map[kube.Key]withdrawal.Pace{},
		orphans:        map[kube.Key]time.Time{},
		unused:         map[string]idle{},
		lost:           map[kube.Key]bool{},
		writing:        map[kube.Key]bool{},
		waiting:        map[kube.Key]bool{},
		unfinished:     map[kube.Key]*work{},
	}
	bundles := c.Loop("bundle")
	e.client = bundles
	e.bundles = kube.StoreOf[*fleet.Bundle](bundles)
	e.deployments = kube.StoreOf[*fleet.BundleDeployment](bundles)
	e.secrets = kube.StoreOf[*corev1.Secret](bundles)
	e.configMaps = kube.StoreOf[*corev1.ConfigMap](bundles)
	e.namespaces = kube.StoreOf[*corev1.Namespace](bundles)
	e.contents = kube.StoreOf[*fleet.Content](c.Loop("content"))
	e.clusters = kube.StoreOf[*fleet.Cluster](c.Loop("cluster"))
	e.groups = kube.StoreOf[*fleet.ClusterGroup](c.Loop("clustergroup"))
	e.repos = kube.StoreOf[*fleet.GitRepo](c.Loop("gitrepo-summary"))
	e.makeCaches(c.Loop("cache"))
	e.followNamespaces(c.Loop("cache"))
	e.sources = newSources(c.Loop("cache"), e.planSome)
	e.bundleController = kube.NewController("bundle", cfg.Workers, e.Reconcile)
	e.deletionController = kube.NewController("withdrawal", 16, e.reconcileLeaving)
	e.heartbeatController = kube.NewController("heartbeat", 2, e.reconcileLife)
	e.silenceController = kube.NewController("silence", 1, e.reconcileSilence)
	e.sweep = kube.NewController("content", 1, e.reconcileContent)
	e.pruner = kube.NewController("gitrepo-prune", 2, e.reconcilePrune)
	e.copyController = kube.NewController("carried", 4, e.reconcileCarried)
	e.moveController = kube.NewController("moved", 1, e.reconcileMoved)
	e.deleter = kube.NewController("bundle-deletion", 2, e.reconcileDeletions)
	e.status = map[string]*reporter{
		fleetstate.KindBundle:  newReporter("bundle-status", bundlePace, e.now, reportMine(e, e.cache.bundles, e.reportBundle)),
		fleetstate.KindGitRepo: newReporter("gitrepo-status", repoPace, e.now, reportMine(e, e.cache.repos, e.reportRepo)),
		fleetstate.KindCluster: newReporter("cluster-status", clusterPace, e.now, reportMine(e, e.cache.clusters, e.reportCluster)),
		fleetstate.KindGroup:   newReporter("clustergroup-status", bundlePace, e.now, reportMine(e, e.cache.groups, e.reportGroup)),
	}
	e.handle()
	e.displays = display.New(display.Config{Deployments: e.cache.deployments, Reporter: e.reporterOf}, c)
	return e
}

// Table returns the engine's table, for metrics.
func (e *Engine) Table() *fleetstate.State { return e.table }

// Repos returns all GitRepos, for metrics.
func (e *Engine) Repos() []*fleet.GitRepo { return e.cache.repos.List("") }

// Clusters returns all Clusters, for metrics.
func (e *Engine) Clusters() []*fleet.Cluster { return e.cache.clusters.List("") }

// Groups returns all ClusterGroups, for metrics.
func (e *Engine) Groups() []*fleet.ClusterGroup { return e.cache.groups.List("") }

// Loops returns the engine's loops, for metrics.
func (e *Engine) Loops() []*kube.Controller {
	loops := []*kube.Controller{e.bundleController, e.deletionController, e.heartbeatController, e.silenceController, e.sweep, e.pruner, e.copyController, e.moveController, e.deleter, e.displays.Loop()}
	for _, kind := range []string{fleetstate.KindBundle, fleetstate.KindGitRepo, fleetstate.KindCluster, fleetstate.KindGroup} {
		loops = append(loops, e.status[kind].loop)
	}
	return loops
}

// Runnables returns the caches and loops to run.
func (e *Engine) Runnables() []kube.Runner {
	parts := []kube.Runner{
		e.cache.bundles, e.cache.deployments, e.cache.clusters, e.cache.groups, e.cache.repos,
		e.cache.contents, e.cache.secrets, e.cache.configMaps, e.cache.brake, e.events, kube.RunnerFunc(e.sources.run),
	}
	for _, kind := range limitingKinds() {
		parts = append(parts, e.cache.limits[kind])
	}
	parts = append(parts, e.cache.mapped.parts()...)
	if e.cache.owned != nil {
		parts = append(parts, e.cache.owned)
	}
	for _, l := range e.Loops() {
		parts = append(parts, l)
	}
	return append(parts, kube.RunnerFunc(e.start))
}

// start runs once, when all caches are filled: without any Bundle no other loop would
// notice that there is nothing to wait for. It also enqueues what was left behind while
// no manager ran.
func (e *Engine) start(ctx context.Context) error {
	e.enqueue(e.table.Settle())
	for _, bd := range e.table.All() {
		e.watchLeaving(bd)
	}
	for _, c := range e.cache.contents.List("") {
		if !e.contentHeld(c) {
			e.sweep.Add(kube.Key{Name: c.Name})
		}
	}
	for _, s := range e.cache.secrets.List("") {
		if ofRegistry(s) {
			e.sweep.Add(kube.Key{Name: s.Name})
		}
	}
	e.sweepSecrets()
	e.sweepCarried()
	<-ctx.Done()
	e.slots.drain()
	return nil
}

// enqueue adds the keys of all objects that changes affect to their queues.
func (e *Engine) enqueue(n fleetstate.Changes) {
	for s, final := range n.Status {
		e.status[s.Kind].wake(s.Key, final)
	}
	for _, key := range n.Plan {
		e.bundleController.Add(key)
	}
	for _, key := range n.Promoted {
		e.silenceController.AddAfter(key, rollout.SilentAfter)
	}
	for _, r := range n.Revived {
		if c, ok := e.table.Cluster(r.Cluster); ok {
			e.revived(c, r.Away)
			e.heartbeatController.Add(r.Cluster)
		}
	}
	for _, id := range n.Unused {
		e.setUnused(id, "", time.Time{})
		e.sweep.Add(kube.Key{Name: id})
	}
}
