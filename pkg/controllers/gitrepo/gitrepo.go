// Package gitrepo is the loop of the role gitjob: it asks repositories for new commits,
// reads them, and writes the Bundles that they yield. Only this process reads foreign
// content and holds credentials of repositories.
//
// There are two loops. One asks remotes, each distinct one (URL, credentials,
// reference) once regardless of how many GitRepos follow it; it writes nothing. The
// other works on GitRepos: it decides (package gitrepo of pkg/plan), reads and writes,
// and reports in one patch of the status.
package gitrepo

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/controllers/rancherca"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Config configures the worker.
type Config struct {
	// Namespace is where Fleet itself runs. It contains the ConfigMaps of the suspension
	// and of known_hosts.
	Namespace string
	// Scope selects the GitRepos of this process; the zero Scope selects all.
	Scope scope.Scope
	// Remotes reads repositories. The caller closes it.
	Remotes *git.Remotes
	// Reader makes bundles of what was fetched. The caller closes it.
	Reader *bundlesource.Reader
	// OCI talks to the registries that bundles are kept in. Nil: none is.
	OCI *oci.Client
	// ImageScans reports that image scanning is on.
	ImageScans bool
	// Metrics counts polls and readings; nil: nothing counts them.
	Metrics *Metrics
	// Workers is how many GitRepos are worked on at once; 8 where 0.
	Workers int
	// Pollers is how many remotes are asked at once; 64 where 0. One that accepts
	// a connection and says nothing holds its place for 30 s, so there have to be
	// more places than remotes that do so.
	Pollers int
}

// A Worker is the loops and caches of the role.
type Worker struct {
	cfg Config
	log *logrus.Entry
	now func() time.Time

	git       repositories
	repos     *kube.Store[*fleet.GitRepo]
	bundles   *kube.Store[*fleet.Bundle]
	events    *kube.Recorder
	publisher *publish.Publisher
	cache     *caches

	loop   *kube.Controller // GitRepos
	poller *poller

	memories    *memories
	names       *nameFinder
	credentials *credentials
	reconciled  func(kube.Key)
}

// caches are the informers of a Worker.
type caches struct {
	repos   *kube.Cache[*fleet.GitRepo]
	bundles *kube.Cache[*metav1.PartialObjectMetadata]
	secrets *kube.Cache[*metav1.PartialObjectMetadata]
	config  *kube.Cache[*corev1.ConfigMap] // of the system namespace
	limits  *policycache.Cache
}

// memories are what is remembered of GitRepos between runs.
type memories struct {
	reader *bundlesource.Reader

	mu      sync.Mutex
	memory  map[kube.Key]*memory
	removed map[types.UID]bool // Bundles that this process has removed and that are still there
}

// memory is what is remembered of a GitRepo between runs. Without it some work is done
// twice, and nothing else changes.
type memory struct {
	uid       types.UID
	read      gitrepo.Read
	lost      bool     // a Bundle was removed by another client
	taken     []string // names of Bundles that have another owner
	announced string   // the commit that an event has announced
	fetches   int      // failures in a row
	reported  reported
	reading   *bundlesource.Memory
	doubts    map[bundle.Dir]lintWarnings // of the last reading
	inputs    map[string]bundle.Inputs    // of the bundles of the last reading, by name, if it was complete
	missing   names                       // that the last reading found and that did not exist
	looked    time.Time                   // when they were looked for
}

// reported is the findings of a commit for which events were emitted.
type reported struct {
	commit string
	texts  map[string]bool
}

// New prepares the worker; it sends no request before its parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Worker {
	return newWorker(cfg, remotes{cfg.Remotes}, c, log)
}

func newWorker(cfg Config, git repositories, c *kube.Client, log *logrus.Entry) *Worker {
	if cfg.Workers < 1 {
		cfg.Workers = 8
	}
	if cfg.Pollers < 1 {
		cfg.Pollers = 64
	}
	w := &Worker{cfg: cfg, log: log, now: time.Now, git: git, cache: &caches{}}
	w.memories = &memories{reader: cfg.Reader, memory: map[kube.Key]*memory{}, removed: map[types.UID]bool{}}
	w.makeCaches(c.Loop("cache"))
	own := c.Loop("gitrepo")
	w.repos = kube.StoreOf[*fleet.GitRepo](own)
	w.bundles = kube.StoreOf[*fleet.Bundle](own)
	secrets := kube.StoreOf[*corev1.Secret](own)
	w.credentials = &credentials{
		cache: w.cache, namespace: cfg.Namespace, registries: cfg.OCI != nil, secrets: secrets, rancher: rancherca.New(w.cache.secrets, secrets),
	}
	w.names = &nameFinder{
		log: log, now: w.now, cache: w.cache, memories: w.memories, clusters: kube.StoreOf[*fleet.Cluster](own),
		groups: kube.StoreOf[*fleet.ClusterGroup](own), mappings: kube.StoreOf[*fleet.BundleNamespaceMapping](own),
	}
	w.events = kube.NewRecorder(c, "gitjob")
	w.publisher = publish.New(publish.Config{
		Client: own, OCI: cfg.OCI, ManagerID: w.managerID,
		Suspended: w.suspended, Bundles: w.bundlesNamed, Removing: w.memories.setRemoved, Log: log,
	})
	w.loop = kube.NewController("gitrepo", cfg.Workers, func(ctx context.Context, key kube.Key) (kube.Result, error) {
		defer func() {
			if w.reconciled != nil {
				w.reconciled(key)
			}
		}()
		return w.Reconcile(ctx, key)
	})
	polls := kube.NewController("gitpoll", cfg.Pollers, w.poll)
	w.poller = newPoller(git, w.loop.Add, polls.Add, polls.AddAfter, rand.Float64)
	w.poller.loop, w.poller.metrics = polls, cfg.Metrics
	w.addHandlers()
	return w
}

// Publisher writes contents for this installation, for other loops of the role.
func (w *Worker) Publisher() *publish.Publisher { return w.publisher }

// Secrets returns the worker's cache of Secrets, for other loops of the role. It runs with
// the worker.
func (w *Worker) Secrets() *kube.Cache[*metav1.PartialObjectMetadata] { return w.cache.secrets }

// Loops returns the worker's loops, for metrics.
func (w *Worker) Loops() []*kube.Controller { return []*kube.Controller{w.loop, w.poller.loop} }

// Runnables returns the caches and loops to run.
func (w *Worker) Runnables() []kube.Runner {
	parts := []kube.Runner{w.cache.repos, w.cache.bundles, w.cache.secrets, w.cache.config, w.events}
	parts = append(parts, w.cache.limits.Runnables()...)
	return append(parts, w.loop, w.poller.loop)
}

// get returns what is remembered of a GitRepo. It returns an empty memory for another
// object of the same name.
func (mm *memories) get(key kube.Key, uid types.UID) memory {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	if m := mm.memory[key]; m != nil && m.uid == uid {
		return *m
	}
	return memory{uid: uid}
}

// update changes what is remembered of a GitRepo.
func (mm *memories) update(key kube.Key, uid types.UID, change func(*memory)) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	m := mm.memory[key]
	if m == nil || m.uid != uid {
		if m != nil {
			mm.reader.Forget(m.reading)
		}
		m = &memory{uid: uid}
		mm.memory[key] = m
	}
	change(m)
}

func (mm *memories) forget(key kube.Key) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	if m := mm.memory[key]; m != nil {
		mm.reader.Forget(m.reading)
	}
	delete(mm.memory, key)
}

// setRemoved records that this process deletes a Bundle; the returned function removes
// the record after a failure.
func (mm *memories) setRemoved(uid types.UID) (failed func()) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	mm.removed[uid] = true
	return func() { mm.takeRemoved(uid) }
}

// takeRemoved reports whether this process has deleted a Bundle, and drops the record.
func (mm *memories) takeRemoved(uid types.UID) bool {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	ours := mm.removed[uid]
	delete(mm.removed, uid)
	return ours
}
