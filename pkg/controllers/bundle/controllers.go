// Package bundle has the controllers of Bundles in the management cluster. They bring
// the deployments of every Bundle in line with its targets, withdraw deployments, hold
// deletions until a user approves them, set Clusters to Offline, delete Contents that
// no object holds, and write the status of Bundles, GitRepos, Clusters and
// ClusterGroups.
//
// Handlers of watches update package fleetstate and enqueue keys; loops read, decide in
// pkg/plan (target, rollout, withdrawal, heartbeat, summary), write and report. A loop
// that has nothing to change writes nothing.
package bundle

import (
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/display"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Config configures the controllers.
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
	// Scope selects the objects that this manager manages; the zero Scope if it is the
	// only manager.
	Scope scope.Scope
	// RequireDownstreamLabel: only objects with LabelDownstreamResource are copied.
	RequireDownstreamLabel bool
	// Schedules reports that Schedules are acted on. Location is the time zone of those
	// without one; UTC where empty.
	Schedules bool
	Location  string
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

// Controllers are the controllers of this package, with the caches that they read.
type Controllers struct {
	base     *base
	sources  *sources
	displays *display.Controller
	handlers *eventHandlers
}

// caches are the informers of the controllers.
type caches struct {
	bundles     *kube.Cache[*fleet.Bundle]
	deployments *kube.Cache[*fleet.BundleDeployment]
	clusters    *kube.Cache[*fleet.Cluster]
	groups      *kube.Cache[*fleet.ClusterGroup]
	repos       *kube.Cache[*fleet.GitRepo]
	helmOps     *kube.Cache[*fleet.HelmOp]
	contents    *kube.Cache[*metav1.PartialObjectMetadata]
	secrets     *kube.Cache[*metav1.PartialObjectMetadata]
	configMaps  *kube.Cache[*metav1.PartialObjectMetadata] // copies
	suspension  *kube.Cache[*corev1.ConfigMap]
	policies    *policycache.Cache
	mapped      mappingCaches
	schedules   *kube.Cache[*fleet.Schedule]               // nil: Schedules are not acted on
	owned       *kube.Cache[*metav1.PartialObjectMetadata] // namespaces of clusters; nil: see followNamespaces
}

// New prepares the controllers; they send no request before they run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Controllers {
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
	b := &base{
		cfg: cfg, log: log, now: cfg.Now, lists: newInterner(), queues: &queues{idle: newIdleTimes()},
		table:  fleetstate.New(cfg.ManagerID, cfg.CheckinInterval, cfg.Now),
		events: kube.NewRecorder(c, "fleet-controller"),
	}
	b.cache = makeCaches(b, c.Loop("cache"))
	p := newParts(b, c)
	p.targeting.followNamespaces(c.Loop("cache"))
	b.bundleQueue = kube.NewController("bundle", cfg.Workers, p.bundles.Reconcile)
	b.withdrawalQueue = kube.NewController("withdrawal", 16, p.withdrawals.reconcileWithdrawal)
	b.heartbeatQueue = kube.NewController("heartbeat", 2, p.liveness.reconcileOffline)
	b.silenceQueue = kube.NewController("silence", 1, p.liveness.reconcileSilence)
	b.contentQueue = kube.NewController("content", 1, p.content.reconcileContent)
	b.pruneQueue = kube.NewController("gitrepo-prune", 2, p.prune.reconcilePrune)
	b.copyQueue = kube.NewController("carried", 4, p.copies.reconcileCopy)
	b.moveQueue = kube.NewController("moved", 1, p.moves.reconcileMoved)
	if cfg.Schedules {
		b.scheduleQueue = kube.NewController("schedule", 1, p.schedules.reconcileSchedule)
	}
	b.deletionQueue = kube.NewController("bundle-deletion", 2, p.guards.reconcileDeletions)
	b.status = map[string]*reporter{
		fleetstate.KindBundle:  newReporter("bundle-status", bundlePace, b.now, reportOwned(b, b.cache.bundles, p.reports.reportBundle)),
		fleetstate.KindGitRepo: newReporter("gitrepo-status", repoPace, b.now, reportOwned(b, b.cache.repos, p.reports.reportRepo)),
		fleetstate.KindHelmOp:  newReporter("helmop-status", repoPace, b.now, reportOwned(b, b.cache.helmOps, p.reports.reportHelmOp)),
		fleetstate.KindCluster: newReporter("cluster-status", clusterPace, b.now, reportOwned(b, b.cache.clusters, p.reports.reportCluster)),
		fleetstate.KindGroup:   newReporter("clustergroup-status", bundlePace, b.now, reportOwned(b, b.cache.groups, p.reports.reportGroup)),
	}
	p.addHandlers()
	p.targeting.displays = display.New(display.Config{Deployments: b.cache.deployments, Reporter: p.targeting.reporterOf}, c)
	return &Controllers{base: b, sources: p.bundles.sources, displays: p.targeting.displays, handlers: p}
}

// newParts makes the controllers, each with what it reads and writes.
func newParts(b *base, c *kube.Client) *eventHandlers {
	client := c.Loop("bundle")
	var (
		bundles     = kube.StoreOf[*fleet.Bundle](client)
		deployments = kube.StoreOf[*fleet.BundleDeployment](client)
		secrets     = kube.StoreOf[*corev1.Secret](client)
		configMaps  = kube.StoreOf[*corev1.ConfigMap](client)
		namespaces  = kube.StoreOf[*corev1.Namespace](client)
		contents    = kube.StoreOf[*fleet.Content](c.Loop("content"))
		clusters    = kube.StoreOf[*fleet.Cluster](c.Loop("cluster"))
		groups      = kube.StoreOf[*fleet.ClusterGroup](c.Loop("clustergroup"))
		repos       = kube.StoreOf[*fleet.GitRepo](c.Loop("gitrepo-summary"))
		helmOps     = kube.StoreOf[*fleet.HelmOp](c.Loop("helmop-summary"))
	)
	budget, deleted, slots := newDeletionBudget(), newDeletions(), newSlots(b.now)
	sources := newSources(c.Loop("cache"), b.enqueueBundles)
	pairs := newPairState(b, sources)
	targeting := &targeting{base: b, pairs: pairs}
	budgets := &budgets{base: b, client: client, bundles: bundles, repos: repos, deletionBudget: budget}
	guards := &guards{
		base: b, client: client, bundles: bundles, repos: repos, namespaces: namespaces, deletionBudget: budget, deletions: deleted, budgets: budgets,
	}
	content := &contentController{base: b, contents: contents, secrets: secrets}
	copies := &copyController{base: b, secrets: secrets, configMaps: configMaps, sources: sources, pairs: pairs}
	withdrawals := &withdrawals{
		base: b, bundles: bundles, deployments: deployments, secrets: secrets, slots: slots, deletions: deleted, budgets: budgets, content: content, pairs: pairs,
		orphans: map[kube.Key]time.Time{}, paces: map[kube.Key]withdrawal.Pace{}, waiting: map[kube.Key]map[kube.Key]fleetstate.PendingCreates{},
	}
	return &eventHandlers{base: b, slots: slots, deletionBudget: budget, deletions: deleted, parts: parts{
		pairs: pairs, targeting: targeting, budgets: budgets, guards: guards, content: content, copies: copies, withdrawals: withdrawals,
		prune:     &pruneController{base: b, bundles: bundles, repos: repos, deletionBudget: budget, budgets: budgets, guards: guards},
		liveness:  &livenessController{base: b, clusters: clusters, deployments: deployments, targeting: targeting},
		schedules: &scheduleController{base: b, schedules: kube.StoreOf[*fleet.Schedule](c.Loop("schedule")), targeting: targeting},
		moves:     &moveController{base: b, clusters: clusters, deployments: deployments},
		reports: &statusController{
			base: b, deletionBudget: budget, guards: guards, targeting: targeting,
			bundles:  statusStore[*fleet.Bundle]{b, fleetstate.KindBundle, bundles, func(o *fleet.Bundle) any { return o.Status }},
			clusters: statusStore[*fleet.Cluster]{b, fleetstate.KindCluster, clusters, func(o *fleet.Cluster) any { return o.Status }},
			groups:   statusStore[*fleet.ClusterGroup]{b, fleetstate.KindGroup, groups, func(o *fleet.ClusterGroup) any { return o.Status }},
			repos:    statusStore[*fleet.GitRepo]{b, fleetstate.KindGitRepo, repos, func(o *fleet.GitRepo) any { return o.Status }},
			helmOps:  statusStore[*fleet.HelmOp]{b, fleetstate.KindHelmOp, helmOps, func(o *fleet.HelmOp) any { return o.Status }},
		},
		bundles: &bundleController{
			base: b, bundles: bundles, deployments: deployments, contents: contents, secrets: secrets, slots: slots, deletionBudget: budget,
			sources: sources, pairs: pairs, budgets: budgets, content: content, copies: copies, targeting: targeting, withdrawals: withdrawals,
		},
	}}
}

// Table returns the table of the controllers, for metrics.
func (c *Controllers) Table() *fleetstate.State { return c.base.table }

// Repos returns all GitRepos, for metrics.
func (c *Controllers) Repos() []*fleet.GitRepo { return c.base.cache.repos.List("") }

// HelmOps returns all HelmOps, for metrics. Of their specs they have the chart only.
func (c *Controllers) HelmOps() []*fleet.HelmOp { return c.base.cache.helmOps.List("") }

// Clusters returns all Clusters, for metrics.
func (c *Controllers) Clusters() []*fleet.Cluster { return c.base.cache.clusters.List("") }

// Groups returns all ClusterGroups, for metrics.
func (c *Controllers) Groups() []*fleet.ClusterGroup { return c.base.cache.groups.List("") }

// Loops returns the loops, for metrics.
func (c *Controllers) Loops() []*kube.Controller {
	b := c.base
	loops := []*kube.Controller{
		b.bundleQueue, b.withdrawalQueue, b.heartbeatQueue, b.silenceQueue, b.contentQueue, b.pruneQueue, b.copyQueue, b.moveQueue, b.deletionQueue, c.displays.Loop(),
	}
	if b.cache.schedules != nil {
		loops = append(loops, b.scheduleQueue)
	}
	for _, kind := range []string{fleetstate.KindBundle, fleetstate.KindGitRepo, fleetstate.KindHelmOp, fleetstate.KindCluster, fleetstate.KindGroup} {
		loops = append(loops, b.status[kind].loop)
	}
	return loops
}

// Runnables returns the caches and loops to run.
func (c *Controllers) Runnables() []kube.Runner {
	parts := []kube.Runner{
		c.base.cache.bundles, c.base.cache.deployments, c.base.cache.clusters, c.base.cache.groups, c.base.cache.repos,
		c.base.cache.helmOps,
		c.base.cache.contents, c.base.cache.secrets, c.base.cache.configMaps, c.base.cache.suspension, c.base.events, kube.RunnerFunc(c.sources.run),
	}
	parts = append(parts, c.base.cache.policies.Runnables()...)
	if c.base.cache.schedules != nil {
		parts = append(parts, c.base.cache.schedules)
	}
	parts = append(parts, c.base.cache.mapped.runnables()...)
	if c.base.cache.owned != nil {
		parts = append(parts, c.base.cache.owned)
	}
	for _, l := range c.Loops() {
		parts = append(parts, l)
	}
	return append(parts, kube.RunnerFunc(c.handlers.onSynced))
}
