// Package token has the loop that creates, for each ClusterRegistrationToken, an
// account that may create ClusterRegistrations, and the Secret that agents are
// installed with. It deletes expired tokens, and warns of an address of the manager
// that agents cannot trust. The decisions are in pkg/plan/registration.
package token

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Config configures the loop.
type Config struct {
	System      registration.System
	Settings    registration.Settings
	TTLRequired bool // tokens without an end are deleted
	Scope       scope.Scope
	Now         func() time.Time // the clock
}

// A Loop keeps what stands behind registration tokens.
type Loop struct {
	cfg      Config
	log      *logrus.Entry
	caches   *cache.Shared
	events   *kube.Recorder
	endpoint *endpoint
	grants   grant.Writer
	loop     *kube.Controller
	tokens   *kube.Store[*fleet.ClusterRegistrationToken]

	written sync.Map // UIDs of tokens whose values were written by this process
	warned  sync.Map // by UID of the token: the last warning
}

// reasonTokenEnded is the reason of an event about a token that is deleted.
const reasonTokenEnded = "TokenEnded"

// New makes the loop; it sends no request before it runs.
func New(cfg Config, c *kube.Client, caches *cache.Shared, events *kube.Recorder, log *logrus.Entry) *Loop {
	l := &Loop{
		cfg: cfg, log: log, caches: caches, events: events,
		grants: grant.NewWriter(c, caches), tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](c),
	}
	l.endpoint = newEndpoint(cfg.Settings, func() {
		for _, t := range caches.Tokens.List("") {
			l.loop.Add(kube.KeyOf(t))
		}
	})
	l.loop = kube.NewController("tokens", 2, kube.Within(cfg.Scope.Holds, l.Reconcile))
	caches.Tokens.OnChange(func(old, t *fleet.ClusterRegistrationToken) {
		if t == nil {
			l.warned.Delete(old.UID)
			l.written.Delete(old.UID)
			return
		}
		l.loop.Add(kube.KeyOf(t))
	})
	caches.AccountTokens.OnChange(func(old, s *cache.Meta) { l.enqueueOwner(cache.Either(old, s)) })
	caches.Values.OnChange(func(old, s *cache.Meta) { l.enqueueOwner(cache.Either(old, s)) })
	caches.Accounts.OnChange(cache.IfGone(func(a *corev1.ServiceAccount) { l.enqueueOwner(a) }))
	caches.Roles.OnChange(cache.IfGone(func(r *rbacv1.Role) { l.enqueueOwner(r) }))
	caches.Bindings.OnChange(cache.IfGone(func(b *rbacv1.RoleBinding) { l.enqueueOwner(b) }))
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop, l.endpoint.loop} }

// enqueueOwner enqueues the token that owns an object.
func (l *Loop) enqueueOwner(o metav1.Object) {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "ClusterRegistrationToken" {
			l.loop.Add(kube.Key{Namespace: o.GetNamespace(), Name: ref.Name})
		}
	}
}

// Reconcile brings the account and the Secret of one token up to date.
//
// 1. gather: the token, from the cache
// 2. decide: registration.JudgeToken, GrantToken (pure)
// 3. apply:  the account with its right, then the Secret of values
// 4. report: ClusterRegistrationToken.status, once
func (l *Loop) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	t, ok := l.caches.Tokens.Get(key)
	if !ok || t.DeletionTimestamp != nil {
		return kube.Done, nil // its objects are deleted by their owner references
	}
	verdict := registration.DecideToken(t, l.cfg.Now(), l.cfg.TTLRequired)
	if verdict.Delete != "" {
		l.events.Event(t, kube.Warning, reasonTokenEnded, fmt.Sprintf(
			"%s: whoever registers with it now is refused (401); clusters that have registered go on", verdict.Delete))
		l.log.WithField("workspace", t.Namespace).WithField("reason", verdict.Delete).Info("registration token deleted")
		return kube.Done, l.tokens.Delete(ctx, key, kube.Exactly(t))
	}
	ready, err := l.ensureAccount(ctx, t)
	if err != nil || !ready {
		return kube.Result{After: verdict.Left}, err // it expires also if it is never finished
	}
	l.warnUntrusted(t)
	changed := t.DeepCopy()
	changed.Status.SecretName = t.Name
	changed.Status.Expires = verdict.Expires
	_, err = l.tokens.PatchStatus(ctx, t, changed)
	return kube.Result{After: verdict.Left}, err
}

// warnUntrusted emits an event if agents cannot register with a token because of the
// manager's address: when the token's values were written, or when the address has
// become bad. A restart of the manager causes no event.
func (l *Loop) warnUntrusted(t *fleet.ClusterRegistrationToken) {
	text := l.endpoint.trustProblem()
	_, written := l.written.Load(t.UID)
	if text == "" || !written && !l.endpoint.other.Load() {
		return
	}
	if said, _ := l.warned.Swap(t.UID, text); said != text {
		l.events.Event(t, kube.Warning, reasonAuthority, text)
	}
}

// ensureAccount creates the account, rights and Secret of a token; false: the API
// server has not filled in the account's token yet.
func (l *Loop) ensureAccount(ctx context.Context, t *fleet.ClusterRegistrationToken) (bool, error) {
	g := registration.GrantToken(t, l.cfg.System)
	bearer, err := l.grants.WithToken(ctx, g.ServiceAccount, g.Secret)
	if err != nil {
		return false, err
	}
	if err := l.grants.Role(ctx, g.Role); err != nil {
		return false, err
	}
	if err := l.grants.Binding(ctx, g.RoleBinding); err != nil {
		return false, err
	}
	if len(bearer) == 0 {
		return false, nil
	}
	return true, l.putValues(ctx, t, string(bearer))
}

// putValues writes the Secret with the token's name. It adopts a Secret of
// rancher/fleet, even if its values are the same: caches select Secrets by this
// manager's labels. It does not change a Secret of another type.
func (l *Loop) putValues(ctx context.Context, t *fleet.ClusterRegistrationToken, bearer string) error {
	want, err := registration.TokenSecret(t, l.cfg.System, l.cfg.Settings, bearer)
	if err != nil {
		return err
	}
	have, err := l.grants.Secrets.Get(ctx, kube.KeyOf(want))
	switch {
	case kube.IsGone(err):
		l.written.Store(t.UID, true)
		_, err = l.grants.Secrets.Create(ctx, want)
		return err
	case err != nil:
		return err
	case have.Type != want.Type:
		err := fmt.Errorf("write values of token %q: a Secret of that name and type %q is there already", t.Name, have.Type)
		l.events.Event(t, kube.Warning, "SecretTaken", err.Error())
		return reconcile.TerminalError("SecretTaken", err)
	}
	changed := have.DeepCopy()
	changed.Labels = ensure.Merged(have.Labels, want.Labels)
	changed.OwnerReferences = want.OwnerReferences
	if !bytes.Equal(have.Data[fleet.KeyValues], want.Data[fleet.KeyValues]) {
		l.written.Store(t.UID, true)
		changed.Data = want.Data
	}
	_, err = l.grants.Secrets.Patch(ctx, have, changed)
	return err
}
