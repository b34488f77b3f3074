package agentmanagement

import (
	"context"
	"fmt"
	"sync"
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

// labelLastUsed is what the API server puts on the Secret of an account's token
// when the token is shown to it, once a day. Kubernetes has it since 1.27.
const labelLastUsed = "kubernetes.io/legacy-token-last-used"

// uses remembers since when the tokens of requests are in use, as far as this
// process has seen.
type uses struct {
	now   func() time.Time
	mu    sync.Mutex
	since map[string]time.Time // by key of the request
}

func newUses(now func() time.Time) *uses { return &uses{now: now, since: map[string]time.Time{}} }

// see notes the Secret of a token. It is true if that is a change.
func (u *uses) see(s *cache.Meta) bool {
	changes := false
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range cache.RequestOf(s) {
		if _, known := u.since[key]; !known && s.Labels[labelLastUsed] != "" {
			u.since[key], changes = u.now(), true
		}
	}
	return changes
}

// forget a request that is gone.
func (u *uses) forget(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, key)
}

// of is since when the token of a request is in use; false: it is not.
func (u *uses) of(r *fleet.ClusterRegistration) (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, ok := u.since[kube.KeyOf(r).String()]
	return since, ok
}

// handed is what is known of the credentials of granted requests, by name.
func (l *requestLoop) handed(requests []*fleet.ClusterRegistration) map[string]registration.Handed {
	out := map[string]registration.Handed{}
	for _, r := range requests {
		h := registration.Handed{Fetchable: len(l.view.Credentials.ByIndex(cache.ByRequest, kube.KeyOf(r).String())) > 0}
		if made, ok := l.made(r); ok {
			h.Over = registration.CredentialLeft(made, l.now()) == 0
		}
		if since, ok := l.uses.of(r); ok {
			h.Used, h.For = true, l.now().Sub(since)
		}
		out[r.Name] = h
	}
	return out
}

// made is when the account of a request was made.
func (l *requestLoop) made(r *fleet.ClusterRegistration) (time.Time, bool) {
	a, ok := l.view.Accounts.Get(kube.Key{Namespace: l.system.RegistrationNamespace(), Name: registration.Account(r)})
	if !ok {
		return time.Time{}, false
	}
	return a.CreationTimestamp.Time, true
}

// accepted reports whether a person has accepted a request, regardless of other
// requests.
func (l *requestLoop) accepted(r *fleet.ClusterRegistration, siblings []*fleet.ClusterRegistration) bool {
	c, ok := l.view.Clusters.Get(kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName})
	return ok && registration.Accepted(r, c, siblings)
}

// hold notes that a request waits for a person, and says so once.
func (l *requestLoop) hold(ctx context.Context, r *fleet.ClusterRegistration, c *fleet.Cluster, claim registration.Claim) error {
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

// registered says that a Cluster which had a credential has another one now.
func (l *requestLoop) registered(r *fleet.ClusterRegistration, c *fleet.Cluster, claim registration.Claim) {
	if !claim.Again {
		return
	}
	l.events.Event(c, kube.Normal, reasonRegisteredAgain, fmt.Sprintf(
		"an agent registered again for this Cluster, as ClusterRegistration %q with token %q; the credential before ends once the new one is in use",
		r.Name, r.Labels[fleet.LabelRegistrationToken]))
}
