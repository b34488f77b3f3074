package registration

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// handOver writes the Secret with an agent's credential, and the right to read it.
func (l *Loop) handOver(ctx context.Context, h registration.Handover) error {
	have, err := l.grants.Secrets.Get(ctx, kube.KeyOf(h.Secret))
	if err == nil && !slices.Equal(cache.RequestOf(have), cache.RequestOf(h.Secret)) {
		workspace, _, _ := registration.RequestOf(h.Secret)
		have, err = nil, l.deleteExpired(ctx, have, workspace)
	}
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if have == nil {
		if have, err = l.grants.Secrets.Create(ctx, h.Secret); err != nil {
			return err
		}
	}
	h.OwnedBy(have)
	if err := l.grants.Role(ctx, h.Role); err != nil {
		return err
	}
	return l.grants.Binding(ctx, h.RoleBinding)
}

// deleteExpired deletes a credential that another request has left, so that the time to
// fetch it starts again. It keeps a credential that can still be fetched: in the same
// workspace the agent has requested twice; in another workspace a second agent uses the
// same client random.
func (l *Loop) deleteExpired(ctx context.Context, have *corev1.Secret, workspace string) error {
	for _, key := range cache.RequestOf(have) {
		r, ok := l.caches.Requests.Get(kube.ParseKey(key))
		switch {
		case !ok || r.DeletionTimestamp != nil || r.Status.Granted && !l.mayFetch(have):
		case r.Namespace == workspace:
			return reconcile.RequeueError("Repeated", 0, fmt.Errorf("request %q of the same agent is answered", key))
		default:
			return reconcile.TerminalError(reasonRefused, fmt.Errorf("request %q has the same clientID and clientRandom", key))
		}
	}
	return l.grants.Secrets.Delete(ctx, kube.KeyOf(have), kube.Exactly(have))
}

// mayFetch reports whether the time to fetch a credential has not passed.
func (l *Loop) mayFetch(s *corev1.Secret) bool {
	return registration.CredentialLeft(s.CreationTimestamp.Time, l.cfg.Now()) > 0
}

// endHandover deletes a credential that was not fetched in time.
func (l *Loop) endHandover(ctx context.Context, r *fleet.ClusterRegistration) (kube.Result, error) {
	next := kube.Done
	for _, s := range l.caches.Credentials.ByIndex(cache.ByRequest, kube.KeyOf(r).String()) {
		left := registration.CredentialLeft(s.CreationTimestamp.Time, l.cfg.Now())
		if left == 0 {
			if err := l.grants.Secrets.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
				return kube.Done, err
			}
			continue
		}
		next.After = max(next.After, left)
	}
	return next, nil
}
