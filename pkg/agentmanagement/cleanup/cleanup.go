// Package cleanup deletes what is left behind when a process dies between two writes, when
// a user removes finalizers, or when rancher/fleet (the reference) was replaced.
package cleanup

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// sweepInterval is how often a sweep is made. Nothing waits for it: what the
// loops delete in their course needs no sweep.
const sweepInterval = 30 * time.Minute

// Config configures the loop.
type Config struct {
	Scope  scope.Scope
	System registration.System
	Now    func() time.Time // the clock
}

// A Loop finds what is left behind. It deletes an object only after two looks with time
// between them, and one more at the API server. It never deletes a BundleDeployment: that takes an order.
type Loop struct {
	log   *logrus.Entry
	now   func() time.Time
	scope scope.Scope
	loop  *kube.Controller

	system registration.System

	client      *kube.Client
	clusters    *kube.Store[*fleet.Cluster]
	requests    *kube.Store[*fleet.ClusterRegistration]
	tokens      *kube.Store[*fleet.ClusterRegistrationToken]
	bundles     *kube.Store[*fleet.Bundle]
	deployments *kube.Store[*fleet.BundleDeployment]
	namespaces  *kube.Store[*corev1.Namespace]
	secrets     *kube.Store[*corev1.Secret]

	grants    []grantKind
	suspicion registration.OrphanTracker // of one loop with one worker
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, log *logrus.Entry) *Loop {
	c = c.Loop("cleanup")
	s := &Loop{
		log: log, now: cfg.Now, scope: cfg.Scope, system: cfg.System, client: c, suspicion: registration.OrphanTracker{},
		clusters: kube.StoreOf[*fleet.Cluster](c), requests: kube.StoreOf[*fleet.ClusterRegistration](c),
		tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](c), grants: grantKinds(c),
		bundles: kube.StoreOf[*fleet.Bundle](c), deployments: kube.StoreOf[*fleet.BundleDeployment](c),
		namespaces: kube.StoreOf[*corev1.Namespace](c), secrets: kube.StoreOf[*corev1.Secret](c),
	}
	s.loop = kube.NewController("cleanup", 1, s.Sweep)
	s.loop.Add(kube.Key{Name: "sweep"})
	return s
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// An orphan is something whose owner is gone, and how to delete it.
type orphan struct {
	timeout time.Duration
	delete  func(context.Context) error
}

// Sweep looks once for objects without an owner.
//
// 1. gather: metadata of namespaces and Secrets, and the names of owners
// 2. decide: registration.Suspicion.Judge (pure)
// 3. apply:  delete objects whose time is over, each after another check of its owner
func (l *Loop) Sweep(ctx context.Context, _ kube.Key) (kube.Result, error) {
	orphans := map[string]orphan{}
	for _, gather := range []func(context.Context, map[string]orphan) error{
		l.orphanNamespaces, l.orphanValues, l.abandonedRequests, l.orphanGrants, l.expiredHandovers,
	} {
		if err := gather(ctx, orphans); err != nil {
			return kube.Done, err
		}
	}
	seen := map[string]time.Duration{}
	for name, o := range orphans {
		seen[name] = o.timeout
	}
	next, ripe := l.suspicion.Update(seen, l.now())
	l.suspicion = next
	for _, name := range ripe {
		if err := orphans[name].delete(ctx); err != nil {
			return kube.Done, fmt.Errorf("sweep %s: %w", name, err)
		}
	}
	if len(next) > len(ripe) { // something waits for its second look
		return kube.Result{After: registration.OrphanTimeout}, nil
	}
	return kube.Result{After: sweepInterval}, nil
}

// orphanNamespaces finds the namespaces of Clusters that do not exist any more.
func (l *Loop) orphanNamespaces(ctx context.Context, orphans map[string]orphan) error {
	namespaces, err := l.list(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), kube.Watch{Labels: cache.Managed})
	if err != nil {
		return err
	}
	clusters, err := l.keysOf(ctx, "Cluster")
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		owner := registration.NamespaceOwner(n)
		if owner == "" || clusters[owner] || n.DeletionTimestamp != nil || l.ofOtherManager(n) || !l.scope.Holds(kube.ParseKey(owner).Namespace) {
			continue
		}
		timeout, err := l.graceOf(ctx, n.Name)
		if err != nil {
			return err
		}
		orphans["Namespace "+n.Name] = orphan{timeout, func(ctx context.Context) error {
			if _, err := l.clusters.Get(ctx, kube.ParseKey(owner)); !kube.IsGone(err) {
				return err
			}
			l.logDeleted("Namespace", n, "Cluster "+owner+" is gone")
			return l.namespaces.Delete(ctx, kube.KeyOf(n), kube.Exactly(n))
		}}
	}
	return nil
}

// graceOf returns how long an orphaned namespace is kept: longer if it has orders that
// an agent may still answer.
func (l *Loop) graceOf(ctx context.Context, namespace string) (time.Duration, error) {
	deployments, err := l.deployments.List(ctx, namespace, "")
	if err != nil {
		return 0, err
	}
	for _, bd := range deployments {
		if bd.Annotations[fleet.AnnotationWithdrawn] != "" {
			return registration.TombstoneTimeout, nil
		}
	}
	return registration.OrphanTimeout, nil
}

// orphanValues finds Secrets with values whose Bundle or BundleDeployment does not
// exist.
func (l *Loop) orphanValues(ctx context.Context, orphans map[string]orphan) error {
	for _, v := range []struct {
		secretType, owner string
		live              func(context.Context, kube.Key) error
	}{
		{fleet.SecretTypeBundleValues, "Bundle", func(ctx context.Context, key kube.Key) error {
			_, err := l.bundles.Get(ctx, key)
			return err
		}},
		{fleet.SecretTypeBundleDeployment, "BundleDeployment", func(ctx context.Context, key kube.Key) error {
			_, err := l.deployments.Get(ctx, key)
			return err
		}},
	} {
		secrets, err := l.list(ctx, corev1.SchemeGroupVersion.WithKind("Secret"),
			kube.Watch{Labels: cache.Managed, Fields: "type=" + v.secretType})
		if err != nil {
			return err
		}
		owners, err := l.keysOf(ctx, v.owner)
		if err != nil {
			return err
		}
		for _, secret := range secrets {
			key := kube.KeyOf(secret)
			if owners[key.String()] || l.ofOtherManager(secret) || !l.scope.Holds(workspaceOf(secret)) || l.now().Sub(secret.CreationTimestamp.Time) < registration.OrphanTimeout {
				continue
			}
			orphans["Secret "+key.String()] = orphan{registration.OrphanTimeout, func(ctx context.Context) error {
				if err := v.live(ctx, key); !kube.IsGone(err) {
					return err
				}
				l.logDeleted("Secret", secret, v.owner+" of that name is gone")
				return l.secrets.Delete(ctx, key, kube.Exactly(secret))
			}}
		}
	}
	return nil
}

// ofOtherManager reports whether an object has the ID of another manager. An object
// without an ID was made by rancher/fleet, and is treated as this manager's.
func (l *Loop) ofOtherManager(o *cache.Meta) bool {
	id := o.Labels[fleet.LabelManagerID]
	return id != "" && id != l.system.ManagerID
}

// workspaceOf returns the workspace of a Secret with values. The Secret of a deployment
// is in the namespace of a cluster; its label names the workspace.
func workspaceOf(secret *cache.Meta) string {
	if ns := secret.Labels[fleet.LabelBundleNamespace]; ns != "" {
		return ns
	}
	return secret.Namespace
}

// abandonedRequests finds ClusterRegistrations that were never granted and whose agents
// have given up.
func (l *Loop) abandonedRequests(ctx context.Context, orphans map[string]orphan) error {
	requests, err := l.requests.List(ctx, "", "")
	if err != nil {
		return err
	}
	for _, r := range requests {
		if !registration.IsAbandoned(r, l.now()) || !l.scope.Holds(r.Namespace) {
			continue
		}
		orphans["ClusterRegistration "+kube.KeyOf(r).String()] = orphan{registration.OrphanTimeout, func(ctx context.Context) error {
			live, err := l.requests.Get(ctx, kube.KeyOf(r))
			if err != nil || !registration.IsAbandoned(live, l.now()) {
				return kube.IgnoreGone(err)
			}
			l.logDeleted("ClusterRegistration", r, "it was never granted")
			return l.requests.Delete(ctx, kube.KeyOf(r), kube.Precondition{UID: live.UID, ResourceVersion: live.ResourceVersion})
		}}
	}
	return nil
}

// keysOf returns the keys of all objects of one of Fleet's kinds.
func (l *Loop) keysOf(ctx context.Context, kind string) (map[string]bool, error) {
	objects, err := l.list(ctx, fleet.GroupVersion.WithKind(kind), kube.Watch{})
	out := map[string]bool{}
	for _, o := range objects {
		out[kube.KeyOf(o).String()] = true
	}
	return out, err
}

// list reads the metadata of a kind once, without keeping a watch.
func (l *Loop) list(ctx context.Context, kind schema.GroupVersionKind, w kube.Watch) ([]*cache.Meta, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	c := kube.NewMetaCache(l.client, kind, w, cache.StripMeta)
	var found []*cache.Meta
	err := kube.Run(ctx, nil, c, kube.RunnerFunc(func(context.Context) error {
		found = c.List("") // runs once the cache is full
		stop()
		return nil
	}))
	if err == nil && !c.HasSynced() {
		err = fmt.Errorf("list %s: %w", kind.Kind, context.Cause(ctx))
	}
	return found, err
}

func (l *Loop) logDeleted(kind string, o metav1.Object, reason string) {
	l.log.WithField("action", "delete "+kind+" "+kube.KeyOf(o).String()).WithField("reason", reason).Info("orphan deleted")
}
