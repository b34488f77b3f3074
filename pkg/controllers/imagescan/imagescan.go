// Package imagescan has the controller of ImageScans: it asks registries for the tags of
// images and writes the newest ones into the status. Package imagecommit commits them.
package imagescan

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/controllers/rancherca"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// bySecret is the index of ImageScans by "namespace/name" of their Secret.
const bySecret = "secret"

// workers is how many ImageScans are worked on at once. One whose registry accepts a
// connection and does not answer holds its place for 30 s.
const workers = 50

// A Registry lists tags, and says which digest a tag has; *oci.Client does so.
type Registry interface {
	Tags(ctx context.Context, r oci.Registry) ([]string, error)
	Digest(ctx context.Context, r oci.Registry, tag string) (string, error)
}

// Config configures the controller.
type Config struct {
	// Scope selects the ImageScans of this process; the zero Scope selects all.
	Scope scope.Scope
	// Registry asks registries.
	Registry Registry
	// Secrets is a secretcache. The caller runs it.
	Secrets *kube.Cache[*metav1.PartialObjectMetadata]
	// Workers is how many ImageScans are worked on at once; 50 where 0.
	Workers int
}

// A Controller is the loop and its cache.
type Controller struct {
	cfg      Config
	log      *logrus.Entry
	now      func() time.Time
	scans    *kube.Store[*fleet.ImageScan]
	secrets  *kube.Store[*corev1.Secret]
	rancher  *rancherca.Authorities
	events   *kube.Recorder
	cache    *kube.Cache[*fleet.ImageScan]
	listings listings
	loop     *kube.Controller

	mu       sync.Mutex
	failures map[kube.Key]failure
}

// A failure says how often an ImageScan has failed in a row, and when it is tried again.
type failure struct {
	generation int64
	count      int
	next       time.Time
}

// New prepares the controller; it sends no request before its parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Controller {
	if cfg.Workers < 1 {
		cfg.Workers = workers
	}
	own, cached := c.Loop("imagescan"), c.Loop("cache")
	secrets := kube.StoreOf[*corev1.Secret](own)
	s := &Controller{
		cfg: cfg, log: log, now: time.Now, failures: map[kube.Key]failure{},
		scans: kube.StoreOf[*fleet.ImageScan](own), secrets: secrets, events: kube.NewRecorder(c, "gitjob"),
		cache:   kube.NewCache[*fleet.ImageScan](cached, kube.Watch{}, nil),
		rancher: rancherca.New(cfg.Secrets, secrets),
	}
	s.listings = listings{now: func() time.Time { return s.now() }, known: map[string]listing{}}
	s.cache.Index(bySecret, func(scan *fleet.ImageScan) []string {
		if scan.Spec.SecretRef == nil {
			return nil
		}
		return []string{secretKey(scan).String()}
	})
	s.loop = kube.NewController("imagescan", cfg.Workers, s.Reconcile)
	s.addHandlers()
	return s
}

// Loops returns the loops, for metrics.
func (s *Controller) Loops() []*kube.Controller { return []*kube.Controller{s.loop} }

// Runnables returns the cache and the loop to run.
func (s *Controller) Runnables() []kube.Runner {
	return []kube.Runner{s.cache, s.events, s.loop}
}

// addHandlers makes the watches enqueue the ImageScans that they affect. A change of the
// status only is the controller's own.
func (s *Controller) addHandlers() {
	s.cache.OnChange(func(old, changed *fleet.ImageScan) {
		switch {
		case changed == nil:
			s.loop.Add(kube.KeyOf(old))
		case old == nil || old.UID != changed.UID || old.Generation != changed.Generation || old.Labels[fleet.LabelShardRef] != changed.Labels[fleet.LabelShardRef]:
			s.loop.Add(kube.KeyOf(changed))
		}
	})
	s.cfg.Secrets.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		if old != nil && changed != nil && old.ResourceVersion == changed.ResourceVersion {
			return
		}
		m := changed
		if m == nil {
			m = old
		}
		affected := s.cache.ByIndex(bySecret, kube.KeyOf(m).String())
		if rancherca.IsSecret(kube.KeyOf(m)) {
			affected = s.cache.List("")
		}
		for _, scan := range affected {
			s.forget(kube.KeyOf(scan)) // the registry may answer differently
			s.loop.Add(kube.KeyOf(scan))
		}
	})
}

// secretKey is the Secret that an ImageScan names.
func secretKey(scan *fleet.ImageScan) kube.Key {
	return kube.Key{Namespace: scan.Namespace, Name: scan.Spec.SecretRef.Name}
}

// forget removes what is known of an ImageScan's failures.
func (s *Controller) forget(key kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, key)
}

// failureOf returns the failures of an ImageScan with its current spec.
func (s *Controller) failureOf(scan *fleet.ImageScan) failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.failures[kube.KeyOf(scan)]; f.generation == scan.Generation {
		return f
	}
	return failure{generation: scan.Generation}
}

// setFailure records a failure.
func (s *Controller) setFailure(scan *fleet.ImageScan, f failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[kube.KeyOf(scan)] = f
}
