// Package cluster gives each Cluster its namespace and the manager's annotations, and
// removes both when the Cluster is deleted. It holds the deletion of a protected
// Cluster until a user approves it. It withdraws nothing: what runs downstream keeps
// running. Package registration of pkg/plan decides which namespace a Cluster owns,
// package withdrawal what is held.
package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/terminating"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Another manager is alive if its lease was renewed within leaseFresh; an obstacle that
// no watch reports is looked at again as often.
const (
	leaseFresh = time.Minute
	lookAgain  = time.Minute
)

// reasonNamespaceRefused is the reason of an event about a Cluster whose annotation
// names a namespace that is not its own.
const reasonNamespaceRefused = "NamespaceRefused"

// Config configures the loop.
type Config struct {
	System       registration.System
	Installation registration.Installation
	Lease        string // the name of the lease that managers work under
	Scope        scope.Scope
	Terminating  *terminating.Workspaces
	Moves        moves
	Mark         func(*fleet.Cluster) *fleet.Cluster // returns a Cluster with what its agent is to get
	Now          func() time.Time                    // the clock
}

// moves answers this loop's questions about Clusters that move to another
// workspace.
type moves interface {
	// MustStay reports whether a Cluster that is deleted has to stay for now.
	MustStay(ctx context.Context, c *fleet.Cluster) (stays bool, next kube.Result, err error)
}

// A Loop gives each Cluster its namespace and the manager's mark.
type Loop struct {
	cfg        Config
	log        *logrus.Entry
	caches     *cache.Shared
	events     *kube.Recorder
	loop       *kube.Controller
	clusters   *kube.Store[*fleet.Cluster]
	requests   *kube.Store[*fleet.ClusterRegistration]
	namespaces *kube.Store[*corev1.Namespace]
	configs    *kube.Store[*corev1.ConfigMap]
	leases     *kube.Store[*coordinationv1.Lease]
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	l := &Loop{
		cfg: cfg, log: log, caches: caches, events: events,
		clusters: kube.StoreOf[*fleet.Cluster](c), requests: kube.StoreOf[*fleet.ClusterRegistration](c),
		namespaces: kube.StoreOf[*corev1.Namespace](c), configs: kube.StoreOf[*corev1.ConfigMap](c),
		leases: kube.StoreOf[*coordinationv1.Lease](c),
	}
	l.loop = kube.NewController("clusters", 4, kube.Within(cfg.Scope.Holds, l.Reconcile))
	caches.Clusters.OnChange(func(old, c *fleet.Cluster) {
		if c != nil && cache.ClusterChanged(old, c) {
			l.loop.Add(kube.KeyOf(c))
		}
	})
	caches.Namespaces.OnChange(func(old, n *cache.Meta) {
		if owner := registration.NamespaceOwner(cache.Either(old, n)); owner != "" {
			l.loop.Add(kube.ParseKey(owner))
		}
	})
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// Enqueue enqueues a Cluster.
func (l *Loop) Enqueue(key kube.Key) { l.loop.Add(key) }

// Reconcile brings one Cluster in line with its spec.
//
//  1. gather: the Cluster and its namespaces from the cache, another manager's
//     lease where the Cluster names one
//  2. decide: registration.NamespaceOf, MarkCluster, AdoptNamespace (pure)
//  3. apply:  mark and finalizer, then the namespace where it is missing
//  4. report: Cluster.status.namespace and condition Processed, once
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	c, ok := l.caches.Clusters.Get(key)
	if !ok {
		return kube.Done, nil
	}
	if id := registration.OtherManager(c, l.cfg.Installation.Mark()); id != "" {
		where, err := l.runningManager(ctx, id)
		if err != nil || where != "" {
			return kube.Result{After: lookAgain}, l.reportForeign(c, where, err)
		}
	}
	switch {
	case c.DeletionTimestamp != nil:
		return l.remove(ctx, c)
	case registration.External(c):
		return kube.Done, nil
	}
	owned, err := l.namesOf(ctx, c)
	if err != nil {
		return kube.Done, err
	}
	name := registration.NamespaceOf(c, owned)
	have, err := l.namespace(ctx, name)
	if err != nil {
		return kube.Done, err
	}
	if reason, message := namespaceProblem(have, c); reason != "" {
		return l.report(ctx, c, c, reason, message)
	}
	marked, err := l.clusters.Patch(ctx, c, l.cfg.Mark(registration.MarkCluster(c, name, l.cfg.Installation.Mark())))
	if err != nil {
		return kube.Done, err
	}
	if refused := registration.NamespaceRefused(c, name); refused != "" {
		l.events.Event(c, kube.Warning, reasonNamespaceRefused, refused) // once: the mark has replaced the annotation
	}
	if have == nil {
		_, err := l.namespaces.Create(ctx, registration.NewNamespace(c, name, l.cfg.System))
		if kube.IsExists(err) {
			return l.giveUpNamespace(ctx, marked, name)
		}
		if err != nil {
			return kube.Done, err
		}
	}
	changed := marked.DeepCopy()
	changed.Status.Namespace = name
	return l.report(ctx, marked, changed, "", "")
}

// remove removes a Cluster that is being deleted. It keeps the Cluster if it moves to
// another workspace, is protected, or if a decision about Bundles of its workspace is
// pending.
func (l *Loop) remove(ctx context.Context, c *fleet.Cluster) (kube.Result, error) {
	if stays, next, err := l.cfg.Moves.MustStay(ctx, c); stays {
		return next, err
	}
	if held, err := l.holdProtected(ctx, c); held || err != nil {
		return kube.Done, err
	}
	if waits, err := l.cfg.Terminating.ClusterMustStay(ctx, c); waits || err != nil {
		return kube.Result{After: terminating.Again}, err
	}
	return kube.Done, l.removeFinalizer(ctx, c)
}

// reportForeign reports that another manager manages a Cluster.
func (l *Loop) reportForeign(c *fleet.Cluster, where string, err error) error {
	if err != nil {
		return err
	}
	err = fmt.Errorf("manage cluster %q: the manager in namespace %q has it, and is alive", kube.KeyOf(c), where)
	return reconcile.RequeueError(registration.ReasonOtherManager, lookAgain, err)
}

// runningManager returns the namespace of another manager if that manager is running.
func (l *Loop) runningManager(ctx context.Context, id string) (string, error) {
	configs, err := l.configs.List(ctx, "", fleet.LabelManagerID+"="+id)
	if err != nil {
		return "", err
	}
	for _, m := range configs {
		if m.Name != fleet.ConfigMapInstallation {
			continue
		}
		lease, err := l.leases.Get(ctx, kube.Key{Namespace: m.Namespace, Name: l.cfg.Lease})
		if kube.IsGone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		renewed, holder := lease.Spec.RenewTime, lease.Spec.HolderIdentity
		if renewed != nil && holder != nil && *holder != "" && l.cfg.Now().Sub(renewed.Time) < leaseFresh {
			return m.Namespace, nil
		}
	}
	return "", nil
}

// namesOf returns the names of the namespaces that are marked as a Cluster's. It reads
// the namespace in the annotation of the Cluster from the API server if the cache lacks
// it.
func (l *Loop) namesOf(ctx context.Context, c *fleet.Cluster) ([]string, error) {
	var out []string
	for _, n := range l.caches.Namespaces.ByIndex(cache.ByCluster, kube.KeyOf(c).String()) {
		out = append(out, n.Name)
	}
	asked := c.Annotations[registration.AnnotationDeploymentNamespace]
	if asked == "" || asked == registration.NamespaceOf(c, out) {
		return out, nil
	}
	n, err := l.namespaces.Get(ctx, kube.Key{Name: asked})
	if err != nil {
		return out, kube.IgnoreGone(err)
	}
	if registration.NamespaceOwner(n) == kube.KeyOf(c).String() {
		out = append(out, asked)
	}
	return out, nil
}

// namespace returns a namespace from the cache, else from the API server; nil if it
// does not exist.
func (l *Loop) namespace(ctx context.Context, name string) (metav1.Object, error) {
	if n, ok := l.caches.Namespaces.Get(kube.Key{Name: name}); ok {
		return n, nil
	}
	n, err := l.namespaces.Get(ctx, kube.Key{Name: name})
	if err != nil {
		return nil, kube.IgnoreGone(err)
	}
	return n, nil
}

// namespaceProblem returns why a Cluster cannot have a namespace; empty if it can. have
// is nil for a namespace that does not exist.
func namespaceProblem(have metav1.Object, c *fleet.Cluster) (reason, message string) {
	if have == nil {
		return "", ""
	}
	if have.GetDeletionTimestamp() != nil {
		return registration.ReasonTerminating, fmt.Sprintf("namespace %q is being deleted and will be made again", have.GetName())
	}
	if taken := registration.AdoptNamespace(have, c); taken != "" {
		return registration.ReasonNamespaceTaken, taken
	}
	return "", ""
}

// giveUpNamespace handles a namespace that another client created just before the
// manager could.
func (l *Loop) giveUpNamespace(ctx context.Context, c *fleet.Cluster, name string) (kube.Result, error) {
	unmarked := registration.UnmarkCluster(c)
	c, err := l.clusters.Patch(ctx, c, unmarked)
	if err != nil {
		return kube.Done, err
	}
	return l.report(ctx, c, registration.UnmarkCluster(c), registration.ReasonNamespaceTaken,
		fmt.Sprintf("namespace %q was made by somebody else: delete it", name))
}

// report writes condition Processed, together with the status in changed.
func (l *Loop) report(ctx context.Context, c, changed *fleet.Cluster, reason, message string) (kube.Result, error) {
	out := changed.DeepCopy()
	out.Status.Conditions = condition.Set(c.Status.Conditions, registration.ProcessedCondition(c, reason, message), l.cfg.Now())
	if _, err := l.clusters.PatchStatus(ctx, c, out); err != nil {
		return kube.Done, err
	}
	if reason == "" {
		return kube.Done, nil
	}
	if was := condition.Find(c.Status.Conditions, fleet.ConditionProcessed); was == nil || was.Reason != reason {
		l.events.Event(c, kube.Warning, reason, message)
	}
	return kube.Result{After: lookAgain}, nil
}

// removeFinalizer removes the finalizer of a deleted Cluster, and deletes its namespace
// and the ClusterRegistrations that were granted for it; their loop revokes their
// rights. What the agent has deployed stays.
func (l *Loop) removeFinalizer(ctx context.Context, c *fleet.Cluster) error {
	released := registration.ReleaseCluster(c)
	if len(released.Finalizers) == len(c.Finalizers) {
		return nil
	}
	for _, r := range l.caches.Requests.ByIndex(cache.ByCluster, kube.KeyOf(c).String()) {
		if !r.Status.Granted {
			continue // the request waited for an approval, and gets a Cluster of its own now
		}
		if err := l.requests.Delete(ctx, kube.KeyOf(r), kube.Exactly(r)); err != nil {
			return err
		}
	}
	for _, n := range l.caches.Namespaces.ByIndex(cache.ByCluster, kube.KeyOf(c).String()) {
		if n.DeletionTimestamp != nil {
			continue
		}
		if err := l.namespaces.Delete(ctx, kube.KeyOf(n), kube.Exactly(n)); err != nil {
			return err
		}
	}
	if _, err := l.clusters.Patch(ctx, c, released); err != nil && !kube.IsGone(err) {
		return err
	}
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).
		WithField("reason", "the Cluster was deleted; nothing was uninstalled").Info("cluster released")
	return nil
}
