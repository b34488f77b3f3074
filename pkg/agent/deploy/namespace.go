package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Delays of what concerns namespaces.
const (
	listDelay  = 200 * time.Millisecond // until the list of namespaces is there
	markDelay  = 2 * time.Minute        // until labels that could not be written are tried again, at most
	labelDelay = time.Minute            // until a namespace that is not allowed is looked at again without a change
)

// namespaces are what is known of the namespaces of the agent's cluster: only
// while a deployment is restricted by their labels.
type namespaces struct {
	start sync.Once
	ctx   context.Context
	cache *kube.Cache[*metav1.PartialObjectMetadata] // nil: the labels are not known

	own      string // the agent's namespace
	helm     *helm.Client
	log      *logrus.Entry
	failures *failureLog
	now      func() time.Time
	enqueue  func(name string)

	mu    sync.Mutex
	uses  map[string]string        // namespaces of restricted deployments, by name of the deployment
	metas map[string]namespaceMeta // by name of the deployment
}

// newNamespaces makes the part for namespaces. ctx ends its cache.
func newNamespaces(ctx context.Context, cfg Config, failures *failureLog, enqueue func(name string)) *namespaces {
	n := &namespaces{
		ctx: ctx, cache: cfg.Namespaces, own: cfg.Namespace, helm: cfg.Helm, log: cfg.Log, failures: failures, now: cfg.Now,
		enqueue: enqueue, uses: map[string]string{}, metas: map[string]namespaceMeta{},
	}
	if n.cache != nil {
		n.cache.OnError(func(error) {}) // tried again by the cache; deployments wait meanwhile
		n.cache.OnChange(n.onNamespace)
	}
	return n
}

// forget removes what is known of a deployment.
func (n *namespaces) forget(deployment string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.uses, deployment)
	delete(n.metas, deployment)
}

func (n *namespaces) meta(deployment string) namespaceMeta {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.metas[deployment]
}

func (n *namespaces) setMeta(deployment string, m namespaceMeta) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.metas[deployment] = m; m == (namespaceMeta{}) {
		delete(n.metas, deployment)
	}
}

// checkAllowed reports whether a deployment may use its namespace. If it may not, the
// agent changes nothing of it and does not maintain it; what runs stays.
func (n *namespaces) checkAllowed(s *snapshot) (bool, error) {
	name := s.wanted.ID.Namespace
	if s.spec.Options.AllowedTargetNamespaceSelector == nil {
		n.stopWatching(s.name)
		return true, nil
	}
	labels, exists, err := n.labels(s.name, name)
	if err != nil {
		return false, err
	}
	why := options.TargetNamespaceRefusal(s.spec.Options, name, labels, exists)
	if why == "" {
		return true, nil
	}
	s.frozen = true
	s.fail(report.Failure{Reason: release.ReasonNotAllowed, Message: why})
	s.requeueAfter(labelDelay)
	n.failures.log(s, release.ReasonNotAllowed, why)
	return false, nil
}

// labels returns the labels of a namespace, and records that a deployment uses it.
func (n *namespaces) labels(deployment, name string) (labels map[string]string, exists bool, err error) {
	if n.cache == nil {
		return nil, false, reconcile.TerminalError(release.ReasonNotAllowed, errors.New("the labels of namespaces are not known"))
	}
	n.mu.Lock()
	n.uses[deployment] = name
	n.mu.Unlock()
	n.start.Do(func() { go func() { _ = n.cache.Run(n.ctx) }() })
	if !n.cache.HasSynced() {
		return nil, false, reconcile.RequeueError("NamespacesUnknown", listDelay, errors.New("waits for the list of namespaces"))
	}
	ns, ok := n.cache.Get(kube.Key{Name: name})
	if !ok || ns.DeletionTimestamp != nil {
		return nil, false, nil
	}
	return ns.Labels, true, nil
}

// stopWatching records that a deployment does not use a namespace any more; without
// users the cache ends.
func (n *namespaces) stopWatching(deployment string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.uses, deployment)
}

// restrictedIn returns the deployments in a namespace that its labels restrict.
func (n *namespaces) restrictedIn(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for deployment, used := range n.uses {
		if used == name {
			out = append(out, deployment)
		}
	}
	slices.Sort(out)
	return out
}

// onNamespace enqueues the restricted deployments of a namespace that was created or
// deleted, or whose labels have changed.
func (n *namespaces) onNamespace(old, onNamespace *metav1.PartialObjectMetadata) {
	if old != nil && onNamespace != nil && maps.Equal(old.Labels, onNamespace.Labels) &&
		(old.DeletionTimestamp == nil) == (onNamespace.DeletionTimestamp == nil) {
		return
	}
	ns := onNamespace
	if ns == nil {
		ns = old
	}
	for _, name := range n.restrictedIn(ns.Name) {
		n.enqueue(name)
	}
}

// applyMeta sets the labels and annotations of the options on the namespace of a
// release that is up to date; they are not part of the deployment id. It checks from
// time to time whether another client has changed them.
func (n *namespaces) applyMeta(ctx context.Context, s *snapshot) {
	o := s.spec.Options
	if len(o.NamespaceLabels) == 0 && len(o.NamespaceAnnotations) == 0 {
		n.setMeta(s.name, namespaceMeta{})
		return
	}
	if s.failure != nil || s.observed.State != release.Deployed || s.observed.Good == 0 {
		return
	}
	want := namespaceMetaOf(s.observed.ID.Namespace, o)
	now, last := n.now(), n.meta(s.name)
	if last.what == want && now.Sub(last.at) < drift.LookAgain {
		return
	}
	tries := last.tries + 1
	err := n.helm.MarkNamespace(ctx, s.observed.ID.Namespace, o)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		n.setMeta(s.name, namespaceMeta{tries: tries})
		s.fail(report.Failure{Reason: reconcile.ReasonOf(err), Message: err.Error()})
		s.requeueAfter(min(backOff(tries), markDelay))
		n.failures.log(s, reconcile.ReasonOf(err), err.Error())
	default:
		n.setMeta(s.name, namespaceMeta{what: want, at: now})
	}
}

// A namespaceMeta is which labels and annotations a namespace was given, and when.
type namespaceMeta struct {
	what  string
	at    time.Time
	tries int // that failed in a row
}

// namespaceMetaOf returns one text of everything that applyMeta sets, to compare it.
func namespaceMetaOf(namespace string, o fleet.BundleDeploymentOptions) string {
	text, _ := json.Marshal([]any{namespace, o.ServiceAccount, o.NamespaceLabels, o.NamespaceAnnotations}) //nolint:errchkjson // texts only
	return string(text)
}

// deleteNamespace deletes the target namespace of a withdrawn deployment, if the
// options ask for that and the agent has deployed to it. It keeps a namespace that
// another deployment or release uses, or that is protected.
func (n *namespaces) deleteNamespace(ctx context.Context, s *snapshot) error {
	o, name := s.rec.Spec.Options, s.rec.Release.Namespace
	if !s.hasRecord || s.rec.Applied == "" || !o.DeleteNamespace || o.KeepResources || s.spec.Options.KeepResources || s.wanted.Abandon ||
		o.TargetNamespace == "" || o.TargetNamespace != name || name == n.own || withdrawal.Protected(name) {
		return nil
	}
	log := n.log.WithFields(logrus.Fields{"deployment": s.name, "action": "delete namespace", "namespace": name})
	for other, p := range s.wanted.Peers {
		if p.Live && p.ID.Namespace == name {
			log.WithField("reason", "bundle "+other+" is in it").Info("namespace kept")
			return nil
		}
	}
	kept, err := n.helm.DropNamespace(ctx, name, o.ServiceAccount)
	switch {
	case err != nil:
		return err
	case kept != "":
		log.WithField("reason", kept+" is in it").Info("namespace kept")
	default:
		log.WithField("reason", "deleteNamespace").Info("namespace deleted")
	}
	return nil
}
