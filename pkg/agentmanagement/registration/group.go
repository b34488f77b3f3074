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

// addGroupLabels adds the labels of the group that the request's token names to the
// labels of a new Cluster; they win. It returns that group; empty if there is none. If
// the group does not exist, or the labels do not select it, the request waits, and an
// event says so: a Cluster never joins without its group.
func (l *Loop) addGroupLabels(ctx context.Context, r *fleet.ClusterRegistration, labels map[string]string) (string, error) {
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
