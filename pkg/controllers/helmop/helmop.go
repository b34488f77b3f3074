// Package helmop has the controller of HelmOps: it finds out which version of the chart a
// HelmOp stands for, and writes the HelmOp's Bundle. The chart itself is pulled by agents,
// or by the manager for Bundles that ask for it.
//
// The version is decided once, here, so that all clusters get the same. HelmOps with the
// same repository and credentials share one download of its index per interval.
package helmop

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/controllers/rancherca"
	"github.com/fleetworkspace/fleet/pkg/controllers/secretcache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// bySecret is the index of HelmOps by "namespace/name" of their Secret.
const bySecret = "secret"

// workers is how many HelmOps are worked on at once. One whose source accepts a connection
// and does not answer holds its place for 30 s.
const workers = 64

// Versions says which version of a chart a constraint stands for; *bundlesource.Reader has
// it.
type Versions interface {
	Resolve(ctx context.Context, request chart.Request, access chart.Access, maxAge time.Duration, ready func()) (version string, next time.Duration, err error)
}

// Config configures the controller.
type Config struct {
	// Namespace is where Fleet itself runs. It contains the ConfigMap of the suspension.
	Namespace string
	// Scope selects the HelmOps of this process; the zero Scope selects all.
	Scope scope.Scope
	// Versions asks repositories. The caller closes it.
	Versions Versions
	// Workers is how many HelmOps are worked on at once; 64 where 0.
	Workers int
}

// A Controller is the loop and its caches.
type Controller struct {
	cfg     Config
	log     *logrus.Entry
	now     func() time.Time
	ops     *kube.Store[*fleet.HelmOp]
	bundles *kube.Store[*fleet.Bundle]
	secrets *kube.Store[*corev1.Secret]
	rancher *rancherca.Authorities
	events  *kube.Recorder
	cache   caches
	loop    *kube.Controller

	mu    sync.Mutex
	known map[kube.Key]answer
}

// caches are the informers of a Controller.
type caches struct {
	ops      *kube.Cache[*fleet.HelmOp]
	bundles  *kube.Cache[*fleet.Bundle] // of HelmOps
	secrets  *kube.Cache[*metav1.PartialObjectMetadata]
	config   *kube.Cache[*corev1.ConfigMap] // the suspension
	policies *policycache.Cache
}

// An answer is what a source has said for one HelmOp. Without it the source is asked once
// more, and nothing else changes.
type answer struct {
	uid        types.UID
	generation int64
	version    string
	due        time.Time // when the source is asked again; zero: never
}

// New prepares the controller; it sends no request before its parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Controller {
	if cfg.Workers < 1 {
		cfg.Workers = workers
	}
	own, cached := c.Loop("helmop"), c.Loop("cache")
	h := &Controller{
		cfg: cfg, log: log, now: time.Now, known: map[kube.Key]answer{},
		ops: kube.StoreOf[*fleet.HelmOp](own), bundles: kube.StoreOf[*fleet.Bundle](own), secrets: kube.StoreOf[*corev1.Secret](own),
		events: kube.NewRecorder(c, fleet.FieldManagerHelmOps),
		cache: caches{
			ops:      kube.NewCache(cached, kube.Watch{}, stripOp),
			bundles:  kube.NewCache(cached, kube.Watch{Labels: fleet.LabelHelmOpName}, stripBundle),
			secrets:  secretcache.New(cached),
			config:   kube.NewCache[*corev1.ConfigMap](cached, kube.Watch{Namespace: cfg.Namespace, Fields: "metadata.name=" + fleet.ConfigMapBrake}, nil),
			policies: policycache.PoliciesOnly(cached),
		},
	}
	h.cache.ops.Index(bySecret, func(op *fleet.HelmOp) []string {
		return []string{kube.Key{Namespace: op.Namespace, Name: op.Spec.HelmSecretName}.String()}
	})
	h.rancher = rancherca.New(h.cache.secrets, h.secrets)
	h.loop = kube.NewController("helmop", cfg.Workers, h.Reconcile)
	h.addHandlers()
	return h
}

// Loops returns the loops, for metrics.
func (h *Controller) Loops() []*kube.Controller { return []*kube.Controller{h.loop} }

// Runnables returns the caches and loops to run.
func (h *Controller) Runnables() []kube.Runner {
	parts := []kube.Runner{h.cache.ops, h.cache.bundles, h.cache.secrets, h.cache.config}
	return append(append(parts, h.cache.policies.Runnables()...), h.events, h.loop)
}

const annotationApplied = "kubectl.kubernetes.io/last-applied-configuration"

// stripOp drops the status fields that the role controller writes.
func stripOp(op *fleet.HelmOp) {
	delete(op.Annotations, annotationApplied)
	op.Status.Resources, op.Status.PerClusterResourceCounts = nil, nil
	op.Status.Summary = fleet.BundleSummary{}
}

// stripBundle drops the status, which is not read here.
func stripBundle(b *fleet.Bundle) { b.Status = fleet.BundleStatus{} }

// addHandlers makes the watches enqueue the HelmOps that they affect.
func (h *Controller) addHandlers() {
	h.cache.ops.OnChange(func(old, changed *fleet.HelmOp) {
		switch {
		case old == nil || changed == nil:
			h.loop.Add(kube.KeyOf(orOld(old, changed)))
		case metaChanged(old, changed):
			h.loop.AddFirst(kube.KeyOf(changed)) // a user has just changed the object
		}
	})
	h.cache.bundles.OnChange(func(old, changed *fleet.Bundle) {
		if old != nil && changed != nil && !metaChanged(old, changed) {
			return // a rollout writes the status again and again
		}
		b := orOld(old, changed)
		h.loop.Add(kube.Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelHelmOpName]})
	})
	h.cache.secrets.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		if old != nil && changed != nil && old.ResourceVersion == changed.ResourceVersion {
			return
		}
		key := kube.KeyOf(orOld(old, changed))
		affected := h.cache.ops.ByIndex(bySecret, key.String())
		if h.cache.policies.Of(key.Namespace).DefaultHelmSecret() == key.Name {
			affected = append(affected, h.cache.ops.ByIndex(bySecret, kube.Key{Namespace: key.Namespace}.String())...)
		}
		if rancherca.IsSecret(key) {
			affected = h.cache.ops.List("")
		}
		for _, op := range affected {
			h.forget(kube.KeyOf(op)) // the source may answer differently
			h.loop.Add(kube.KeyOf(op))
		}
	})
	h.cache.config.OnChange(func(_, _ *corev1.ConfigMap) { h.enqueueAll("") })
	h.cache.policies.OnChange(func(namespace string) {
		for _, op := range h.cache.ops.ByIndex(bySecret, kube.Key{Namespace: namespace}.String()) {
			h.forget(kube.KeyOf(op)) // its Secret may be another one
		}
		h.enqueueAll(namespace)
	})
}

// enqueueAll enqueues all HelmOps of a namespace; of all namespaces if namespace is empty.
func (h *Controller) enqueueAll(namespace string) {
	for _, op := range h.cache.ops.List(namespace) {
		h.loop.Add(kube.KeyOf(op))
	}
}

// answerOf returns what the source has said for the current spec of a HelmOp, if this
// process has asked it.
func (h *Controller) answerOf(op *fleet.HelmOp) (answer, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.known[kube.KeyOf(op)]
	return a, ok && a.uid == op.UID && a.generation == op.Generation
}

func (h *Controller) setAnswer(op *fleet.HelmOp, version string, due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[kube.KeyOf(op)] = answer{op.UID, op.Generation, version, due}
}

func (h *Controller) forget(key kube.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, key)
}
