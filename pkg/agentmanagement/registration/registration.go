// Package registration has the loop that answers ClusterRegistrations: it finds or
// creates the Cluster, creates the account and rights of the agent, and delivers the
// token. It maintains the rights while the request exists, and revokes them when it is
// deleted. The decisions are in pkg/plan/registration and pkg/plan/credential.
package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/terminating"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// reasonRefused is the reason of an event about a request that gets no answer.
const reasonRefused = "RegistrationRefused"

// reasonUndecided is why a credential stays.
const reasonUndecided = "DeletionUndecided"

// Config configures the loop.
type Config struct {
	System      registration.System
	Settings    registration.Settings
	Scope       scope.Scope
	Terminating *terminating.Workspaces
	Now         func() time.Time // the clock
}

// A Loop answers ClusterRegistrations.
type Loop struct {
	cfg         Config
	log         *logrus.Entry
	caches      *cache.Shared
	events      *kube.Recorder
	grants      grant.Writer
	loop        *kube.Controller
	requests    *kube.Store[*fleet.ClusterRegistration]
	clusters    *kube.Store[*fleet.Cluster]
	namespaces  *kube.Store[*corev1.Namespace]
	groups      *kube.Store[*fleet.ClusterGroup]
	uses        *uses
	credentials credentials
	tooMany     sync.Map // of tokens, by UID: tooManyPending
}

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	l := &Loop{
		cfg: cfg, log: log, caches: caches, events: events, grants: grant.NewWriter(c, caches),
		requests: kube.StoreOf[*fleet.ClusterRegistration](c), clusters: kube.StoreOf[*fleet.Cluster](c),
		namespaces: kube.StoreOf[*corev1.Namespace](c), groups: kube.StoreOf[*fleet.ClusterGroup](c), uses: newUses(cfg.Now),
	}
	l.credentials = credentials{
		cfg: cfg, log: log, caches: caches, events: events, grants: l.grants, clusters: l.clusters, uses: l.uses, since: cfg.Now(),
	}
	l.loop = kube.NewController("registrations", 4, kube.Within(cfg.Scope.Holds, l.Reconcile))
	v := caches
	v.Requests.OnChange(l.onRequest)
	v.Clusters.OnChange(l.onCluster)
	v.Tokens.OnChange(func(old, t *fleet.ClusterRegistrationToken) {
		if old == nil {
			l.enqueueAll(v.Requests.ByIndex(cache.ByToken, kube.KeyOf(t).String()))
		}
	})
	v.Namespaces.OnChange(func(old, n *cache.Meta) {
		l.enqueueAll(v.Requests.ByIndex(cache.ByCluster, registration.NamespaceOwner(cache.Either(old, n))))
	})
	// Objects without their request are deleted, missing ones are created again, and a
	// completed token is handed over.
	v.Accounts.OnChange(cache.IfNewOrGone(func(a *corev1.ServiceAccount) { l.enqueueRequestOf(a) }))
	v.Roles.OnChange(cache.IfGone(func(r *rbacv1.Role) { l.enqueueRequestOf(r) }))
	v.Bindings.OnChange(cache.IfNewOrGone(func(b *rbacv1.RoleBinding) { l.enqueueRequestOf(b) }))
	v.ClusterBindings.OnChange(cache.IfNewOrGone(func(b *rbacv1.ClusterRoleBinding) { l.enqueueRequestOf(b) }))
	v.AccountTokens.OnChange(func(old, s *cache.Meta) {
		if s != nil && l.uses.observe(s) {
			l.onCredential(s)
			return
		}
		l.enqueueRequestOf(cache.Either(old, s))
	})
	v.Credentials.OnChange(cache.IfNewOrGone(l.onCredential))
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// onRequest enqueues a request, and the requests of the same client that its answer may
// affect.
func (l *Loop) onRequest(old, r *fleet.ClusterRegistration) {
	if r == nil {
		l.loop.Add(kube.KeyOf(old))
		l.enqueueAll(l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(old.Namespace, old.Spec.ClientID)))
		return
	}
	l.loop.Add(kube.KeyOf(r))
	granted := r.Status.Granted && (old == nil || !old.Status.Granted)
	ends := r.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil)
	if granted || ends {
		l.enqueueAll(l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(r.Namespace, r.Spec.ClientID)))
	}
}

// onCluster enqueues the requests that a change of a Cluster affects.
func (l *Loop) onCluster(old, c *fleet.Cluster) {
	if !cache.ClusterChanged(old, c) {
		return
	}
	if c == nil {
		c = old
	}
	l.enqueueAll(l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(c.Namespace, c.Spec.ClientID)))
	l.enqueueAll(l.caches.Requests.ByIndex(cache.ByCluster, kube.KeyOf(c).String()))
}

// onCredential enqueues the request of a credential, and the requests of the same
// client.
func (l *Loop) onCredential(s *cache.Meta) {
	l.enqueueRequestOf(s)
	for _, key := range cache.RequestOf(s) {
		if r, ok := l.caches.Requests.Get(kube.ParseKey(key)); ok {
			l.enqueueAll(l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(r.Namespace, r.Spec.ClientID)))
		}
	}
}

func (l *Loop) enqueueAll(requests []*fleet.ClusterRegistration) {
	for _, r := range requests {
		l.loop.Add(kube.KeyOf(r))
	}
}

// enqueueRequestOf enqueues the request that an object was made for.
func (l *Loop) enqueueRequestOf(o metav1.Object) {
	for _, key := range cache.RequestOf(o) {
		l.loop.Add(kube.ParseKey(key))
	}
}

// Reconcile brings the answer to one request in line with it.
//
//  1. gather: the request and its siblings from the cache
//  2. decide: registration.StandingOf, Assign, GrantAgent, HandOver (pure)
//  3. apply:  Cluster, account, rights, credential, in this order
//  4. report: ClusterRegistration.status, once
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	r, ok := l.caches.Requests.Get(key)
	if !ok || r.DeletionTimestamp != nil { // a finalizer, which the agent itself may have set, keeps no credential
		return kube.Done, l.revoke(ctx, key)
	}
	if registration.External(r) {
		return kube.Done, nil
	}
	if c, ok := l.caches.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}); ok && r.Status.Granted && registration.Released(c) {
		return kube.Done, l.deleteRequest(ctx, r, "its Cluster is deleted")
	}
	siblings := registration.Present(l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(r.Namespace, r.Spec.ClientID)))
	standing, left := registration.StandingOf(r, siblings, l.credentialStates(siblings), registration.Overlap(l.cfg.Settings.AgentCheckinInterval))
	switch standing {
	case registration.Superseded:
		return kube.Done, l.deleteRequest(ctx, r, "a newer request was granted")
	case registration.Repeated:
		return kube.Done, l.deleteRequest(ctx, r, "it repeats a request that was granted")
	case registration.Unused:
		return kube.Done, l.deleteRequest(ctx, r, "its credential was not used, and the one before is in use")
	case registration.Outgoing:
		next, err := l.maintain(ctx, r)
		return next.Sooner(left), err
	case registration.Waiting:
		if !r.Status.Granted && !l.accepted(r, siblings) {
			return kube.Done, nil
		}
	case registration.Newest:
	}
	if r.Status.Granted {
		next, err := l.maintain(ctx, r)
		if err != nil {
			return next, err
		}
		return l.credentials.maintain(ctx, r, next)
	}
	next, err := l.answer(ctx, r, siblings)
	if reconcile.IsTerminal(err) {
		l.events.Event(r, kube.Warning, reasonRefused, err.Error())
	}
	return next, err
}

// deleteRequest deletes a request; revoke then deletes what it was granted.
func (l *Loop) deleteRequest(ctx context.Context, r *fleet.ClusterRegistration, reason string) error {
	l.log.WithField("workspace", r.Namespace).WithField("reason", reason).Info("registration deleted")
	return l.requests.Delete(ctx, kube.KeyOf(r), kube.Exactly(r))
}

// revoke deletes what a deleted request was granted: first the account, which
// invalidates its token, then its bindings. Roles are deleted by their owner
// references.
func (l *Loop) revoke(ctx context.Context, key kube.Key) error {
	accounts := l.caches.Accounts.ByIndex(cache.ByRequest, key.String())
	if err := l.stillNeeded(ctx, key, accounts); err != nil {
		return err
	}
	for _, a := range accounts {
		if err := l.grants.Accounts.Delete(ctx, kube.KeyOf(a), kube.Exactly(a)); err != nil {
			return err
		}
	}
	for _, b := range l.caches.ClusterBindings.ByIndex(cache.ByRequest, key.String()) {
		if err := l.grants.ClusterBindings.Delete(ctx, kube.KeyOf(b), kube.Exactly(b)); err != nil {
			return err
		}
	}
	for _, b := range l.caches.Bindings.ByIndex(cache.ByRequest, key.String()) {
		if err := l.grants.Bindings.Delete(ctx, kube.KeyOf(b), kube.Exactly(b)); err != nil {
			return err
		}
	}
	for _, s := range l.caches.Credentials.ByIndex(cache.ByRequest, key.String()) {
		if err := l.grants.Secrets.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
			return err
		}
	}
	if len(accounts) > 0 {
		l.log.WithField("workspace", key.Namespace).WithField("agent", strings.Join(names(accounts), ", ")).
			WithField("reason", "its request is gone").Info("credential revoked")
	}
	l.uses.forget(key.String())
	return nil
}

// stillNeeded returns an error while the grant of a deleted request is still needed:
// the request was deleted with its namespace, and the agent may have something to
// uninstall.
func (l *Loop) stillNeeded(ctx context.Context, request kube.Key, accounts []*corev1.ServiceAccount) error {
	if len(accounts) == 0 {
		return nil
	}
	waits, err := l.cfg.Terminating.HasPendingBundles(ctx, request.Namespace)
	if err != nil || !waits {
		return err
	}
	return reconcile.RequeueError(reasonUndecided, terminating.Again, fmt.Errorf(
		"take the credential of request %q back: its workspace is being deleted, and a person has not decided about its bundles", request))
}

// names returns the sorted names of objects, for a log line.
func names[P kube.Object](objects []P) []string {
	var out []string
	for _, o := range objects {
		out = append(out, kube.KeyOf(o).String())
	}
	slices.Sort(out)
	return out
}
