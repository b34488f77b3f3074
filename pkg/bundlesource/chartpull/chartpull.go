// Package chartpull pulls the charts of Bundles with "pull: manager", for clusters that
// reach only the manager's Kubernetes API. The controller of Bundles requests a chart
// by an annotation. This loop downloads it with the Bundle's credentials, writes it as
// a Content, and has the Bundle name that Content. It runs in the role gitjob, which
// reads foreign content.
package chartpull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Delays between two attempts to pull a chart.
const (
	firstDelay = 2 * time.Second
	lastDelay  = time.Minute
)

// Charts downloads charts; *bundlesource.Reader has it.
type Charts interface {
	Pull(ctx context.Context, requests []chart.Request, access chart.Access) (content.Manifest, error)
}

// Contents keeps what was downloaded; *publish.Publisher has it.
type Contents interface {
	Content(ctx context.Context, bundle string, m content.Manifest) (id string, err error)
}

// Config configures the loop. No field may be nil.
type Config struct {
	Charts   Charts
	Contents Contents
	// Scope selects the objects that this process manages; the zero Scope if it is
	// the only one.
	Scope scope.Scope
}

// A Puller is the loop and its cache.
type Puller struct {
	cfg     Config
	log     *logrus.Entry
	bundles *kube.Store[*fleet.Bundle]
	secrets *kube.Store[*corev1.Secret]
	cache   *kube.Cache[*metav1.PartialObjectMetadata]
	loop    *kube.Controller

	failures workqueue.TypedRateLimiter[kube.Key] // in a row, and the delays after them
}

// New prepares the loop; it sends no request before its parts run.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Puller {
	own := c.Loop("chart")
	p := &Puller{
		cfg: cfg, log: log, failures: workqueue.NewTypedItemExponentialFailureRateLimiter[kube.Key](firstDelay, lastDelay),
		bundles: kube.StoreOf[*fleet.Bundle](own), secrets: kube.StoreOf[*corev1.Secret](own),
		cache: kube.NewMetaCache(own, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{}, stripMetadata),
	}
	p.loop = kube.NewController("bundle-chart", 2, p.Reconcile)
	p.cache.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		switch {
		case changed == nil:
			p.failures.Forget(kube.KeyOf(old))
		case hasOpenRequest(changed) && (old == nil || !hasOpenRequest(old) || !cfg.Scope.Owns(old) || old.Annotations[fleet.AnnotationPull] != changed.Annotations[fleet.AnnotationPull]):
			p.failures.Forget(kube.KeyOf(changed))
			p.loop.Add(kube.KeyOf(changed))
		}
	})
	return p
}

// Loops returns the loops, for metrics.
func (p *Puller) Loops() []*kube.Controller { return []*kube.Controller{p.loop} }

// Runnables returns the caches and loops to run.
func (p *Puller) Runnables() []kube.Runner { return []kube.Runner{p.cache, p.loop} }

// stripMetadata keeps what was asked for and answered.
func stripMetadata(m *metav1.PartialObjectMetadata) {
	kept := map[string]string{}
	for _, a := range []string{fleet.AnnotationPull, fleet.AnnotationPulled} {
		if v := m.Annotations[a]; v != "" {
			kept[a] = v
		}
	}
	var labels map[string]string
	if shard, ok := m.Labels[fleet.LabelShardRef]; ok {
		labels = map[string]string{fleet.LabelShardRef: shard}
	}
	m.Annotations, m.Labels, m.OwnerReferences, m.Finalizers = kept, labels, nil, nil
}

// hasOpenRequest reports whether charts are asked for that are not there.
func hasOpenRequest(m metav1.Object) bool {
	a := m.GetAnnotations()
	return a[fleet.AnnotationPull] != "" && a[fleet.AnnotationPull] != a[fleet.AnnotationPulled] && m.GetDeletionTimestamp() == nil
}

// Reconcile pulls the charts of one Bundle, if that is asked for. A failure is written
// on the Bundle, and the pull is tried again: a source may be repaired.
func (p *Puller) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if m, ok := p.cache.Get(key); !ok || !hasOpenRequest(m) || !p.cfg.Scope.Owns(m) {
		p.failures.Forget(key)
		return kube.Done, nil
	}
	b, err := p.bundles.Get(ctx, key)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	charts := deployment.Charts(&b.Spec)
	if !hasOpenRequest(b) || !deployment.PulledByManager(&b.Spec) || b.Annotations[fleet.AnnotationPull] != chart.KeyOf(charts) {
		return kube.Done, nil // the controller of Bundles asks again
	}
	id, err := p.pull(ctx, b, charts)
	if ctx.Err() != nil {
		return kube.Done, nil
	}
	next := kube.Done
	if err != nil {
		next.After = p.failures.When(key)
	} else {
		p.failures.Forget(key)
	}
	return next, p.answer(ctx, b, id, err)
}

// pull downloads charts and keeps them.
func (p *Puller) pull(ctx context.Context, b *fleet.Bundle, charts []chart.Request) (id string, err error) {
	o := *b.Spec.HelmOpOptions
	var data map[string][]byte
	if o.SecretName != "" {
		secret, err := p.secrets.Get(ctx, kube.Key{Namespace: b.Namespace, Name: o.SecretName})
		if kube.IsGone(err) {
			return "", fmt.Errorf("there is no Secret %q with the credentials for it", o.SecretName)
		}
		if err != nil {
			return "", fmt.Errorf("read Secret %q with the credentials for it: %w", o.SecretName, err)
		}
		data = secret.Data
	}
	c, err := chart.HelmOpCredentials(data, o)
	if err != nil {
		return "", fmt.Errorf("Secret %q: %w", o.SecretName, err) //nolint:staticcheck // a kind
	}
	m, err := p.cfg.Charts.Pull(ctx, charts, chart.HelmOpAccess(c, charts))
	if err != nil {
		return "", err
	}
	return p.cfg.Contents.Content(ctx, b.Name, m)
}

// answer notes on the Bundle what came of it.
func (p *Puller) answer(ctx context.Context, b *fleet.Bundle, id string, failed error) error {
	key := b.Annotations[fleet.AnnotationPull]
	changed := b.DeepCopy()
	log := p.log.WithFields(logrus.Fields{"workspace": b.Namespace, "bundle": b.Name})
	if failed != nil {
		text := key + " " + condition.Message(failed.Error())
		if b.Annotations[fleet.AnnotationPullFailed] == text {
			return nil
		}
		changed.Annotations[fleet.AnnotationPullFailed] = text
		log.WithFields(logrus.Fields{"reason": reconcile.ReasonOf(failed), "error": failed.Error()}).Warn("chart not pulled")
	} else {
		delete(changed.Annotations, fleet.AnnotationPullFailed)
		changed.Annotations[fleet.AnnotationContent], changed.Annotations[fleet.AnnotationPulled] = id, key
		log.WithField("content", id).Info("chart pulled")
	}
	_, err := p.bundles.Patch(ctx, b, changed)
	switch {
	case kube.IsGone(err):
		return nil
	case kube.IsConflict(err):
		return errors.New("the Bundle has changed meanwhile") // tried again at once
	}
	return err
}
