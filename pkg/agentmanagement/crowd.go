package agentmanagement

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

// Requests that wait for others are looked at again every crowdRetry; that a token has
// too many is counted once in crowdKnown for all of them.
const (
	crowdRetry = 15 * time.Second
	crowdKnown = 5 * time.Second
)

// A crowd is a token that was found to have too many Clusters.
type crowd struct {
	why   string
	until time.Time
}

// room returns an error as long as the token of a request may create no further
// Cluster.
func (l *requestLoop) room(r *fleet.ClusterRegistration) error {
	t, err := l.tokenOf(r)
	if err != nil {
		return err
	}
	if known, ok := l.crowds.Load(t.UID); ok && l.now().Before(known.(crowd).until) {
		return reconcile.RequeueError(reasonPending, crowdRetry, errors.New(known.(crowd).why))
	}
	unseen := l.view.Clusters.ByIndex(cache.ByUnseen, r.Namespace)
	why := registration.Crowded(t, l.cfg.Settings.MaxPending, unseen, func(c *fleet.Cluster) []*fleet.ClusterRegistration {
		return l.view.Requests.ByIndex(cache.ByClient, cache.ClientKey(c.Namespace, c.Spec.ClientID))
	})
	if why == "" {
		l.crowds.Delete(t.UID)
		return nil
	}
	if _, was := l.crowds.Swap(t.UID, crowd{why, l.now().Add(crowdKnown)}); !was {
		l.events.Event(t, kube.Warning, reasonPending, why)
	}
	return reconcile.RequeueError(reasonPending, crowdRetry, errors.New(why))
}
