package registration

import (
	"errors"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonPending is the reason of an event about a token that has created too many
// Clusters whose agents have not reported.
const reasonPending = "TooManyPending"

// Requests that wait for others are looked at again every pendingRetry; that a token has
// too many is counted once in pendingKnown for all of them.
const (
	pendingRetry = 15 * time.Second
	pendingKnown = 5 * time.Second
)

// A tooManyPending is a token that was found to have too many Clusters.
type tooManyPending struct {
	why   string
	until time.Time
}

// checkPending returns an error while the token of a request must not create another
// Cluster.
func (l *Loop) checkPending(r *fleet.ClusterRegistration) error {
	t, err := l.tokenOf(r)
	if err != nil {
		return err
	}
	if known, ok := l.tooMany.Load(t.UID); ok && l.cfg.Now().Before(known.(tooManyPending).until) {
		return reconcile.RequeueError(reasonPending, pendingRetry, errors.New(known.(tooManyPending).why))
	}
	unseen := l.caches.Clusters.ByIndex(cache.ByUnseen, r.Namespace)
	why := registration.PendingLimitReason(t, l.cfg.Settings.MaxPending, unseen, func(c *fleet.Cluster) []*fleet.ClusterRegistration {
		return l.caches.Requests.ByIndex(cache.ByClient, cache.ClientKey(c.Namespace, c.Spec.ClientID))
	})
	if why == "" {
		l.tooMany.Delete(t.UID)
		return nil
	}
	if _, was := l.tooMany.Swap(t.UID, tooManyPending{why, l.cfg.Now().Add(pendingKnown)}); !was {
		l.events.Event(t, kube.Warning, reasonPending, why)
	}
	return reconcile.RequeueError(reasonPending, pendingRetry, errors.New(why))
}
