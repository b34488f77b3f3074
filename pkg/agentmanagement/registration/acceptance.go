package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Reasons of events about an agent that asks for a Cluster which has had one.
const (
	reasonRegisteredAgain = "RegisteredAgain"
	reasonClaimWaits      = "RegistrationWaiting"
)

// credentialStates returns the state of the credentials of granted requests, by name.
func (l *Loop) credentialStates(requests []*fleet.ClusterRegistration) map[string]registration.Handed {
	out := map[string]registration.Handed{}
	for _, r := range requests {
		h := registration.Handed{Fetchable: len(l.caches.Credentials.ByIndex(cache.ByRequest, kube.KeyOf(r).String())) > 0}
		if made, ok := l.accountCreated(r); ok {
			h.Over = registration.CredentialLeft(made, l.cfg.Now()) == 0
		}
		if since, ok := l.uses.usedSince(r); ok {
			h.Used, h.For = true, l.cfg.Now().Sub(since)
		}
		out[r.Name] = h
	}
	return out
}

// accountCreated returns when the account of a request was created.
func (l *Loop) accountCreated(r *fleet.ClusterRegistration) (time.Time, bool) {
	a, ok := l.caches.Accounts.Get(kube.Key{Namespace: l.cfg.System.RegistrationNamespace(), Name: registration.Account(r)})
	if !ok {
		return time.Time{}, false
	}
	return a.CreationTimestamp.Time, true
}

// accepted reports whether a user has accepted a request, regardless of other requests.
func (l *Loop) accepted(r *fleet.ClusterRegistration, siblings []*fleet.ClusterRegistration) bool {
	c, ok := l.caches.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
	return ok && registration.Accepted(r, c, siblings)
}

// reportWaiting records that a request waits for a user, and reports that once.
func (l *Loop) reportWaiting(ctx context.Context, r *fleet.ClusterRegistration, c *fleet.Cluster, claim registration.Claim) error {
	if r.Status.ClusterName == c.Name {
		return nil
	}
	changed := r.DeepCopy()
	changed.Status.ClusterName = c.Name
	if _, err := l.requests.PatchStatus(ctx, r, changed); err != nil {
		return err
	}
	l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", claim.Waits).Info("registration waits")
	l.events.Event(r, kube.Warning, reasonClaimWaits, claim.Waits)
	l.events.Event(c, kube.Warning, reasonClaimWaits, claim.Waits)
	return nil
}

// reportReplaced reports that a Cluster which had a credential has another one now.
func (l *Loop) reportReplaced(r *fleet.ClusterRegistration, c *fleet.Cluster, claim registration.Claim) {
	if !claim.Again {
		return
	}
	l.events.Event(c, kube.Normal, reasonRegisteredAgain, fmt.Sprintf(
		"an agent registered again for this Cluster, as ClusterRegistration %q with token %q; the credential before ends once the new one is in use",
		r.Name, r.Labels[fleet.LabelRegistrationToken]))
}
