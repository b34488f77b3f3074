package registration

import (
	"context"
	"fmt"
	"maps"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonGroup is the reason of an event about a request whose token names a
// group that its cluster cannot be put into.
const reasonGroup = "GroupUnfit"

// groupRetry is how often a group is looked at again that does not fit.
const groupRetry = 15 * time.Second

// intoGroup adds to the labels of a new Cluster those of the group that the
// request's token names, and returns that group, empty: none; they win. A cluster that belongs into a group never
// comes in without: where the group is gone or labels do not lead into it, the
// request waits, and an event on it says so.
func (l *Loop) intoGroup(ctx context.Context, r *fleet.ClusterRegistration, labels map[string]string) (string, error) {
	t, err := l.tokenOf(r)
	if err != nil {
		return "", err
	}
	name := registration.TokenGroup(t)
	if name == "" {
		return "", nil
	}
	given := map[string]string{}
	g, err := l.groups.Get(ctx, kube.Key{Namespace: r.Namespace, Name: name})
	switch {
	case kube.IsGone(err):
		err = fmt.Errorf("there is no ClusterGroup %q", name)
	case err != nil:
		return "", err
	default:
		given, err = registration.GroupLabels(g)
	}
	if err != nil {
		err = fmt.Errorf("registration token %q puts clusters into a group, and this one has to wait: %w", t.Name, err)
		l.events.Event(r, kube.Warning, reasonGroup, err.Error())
		return "", reconcile.RequeueError(reasonGroup, groupRetry, err)
	}
	maps.Copy(labels, given)
	return name, nil
}
