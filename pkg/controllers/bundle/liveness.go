package bundle

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// eventOnline is the reason of the event about an agent that is back.
const eventOnline = "Online"

// A livenessController finds the clusters that are offline, and those that do not answer.
type livenessController struct {
	*base
	clusters    *kube.Store[*fleet.Cluster]
	deployments *kube.Store[*fleet.BundleDeployment]
	targeting   *targeting
}

// reconcileOffline decides whether a Cluster is offline. Before it reports a Cluster as
// offline, it reads the Cluster from the API server: the watch may have missed a
// check-in.
func (l *livenessController) reconcileOffline(ctx context.Context, key kube.Key) (kube.Result, error) {
	silent, after := l.table.MissedDeadline(key)
	if !silent {
		return kube.Result{After: after}, nil
	}
	live, err := l.clusters.Get(ctx, key)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	l.targeting.observeCluster(live)
	if silent, after = l.table.MissedDeadline(key); !silent {
		return kube.Result{After: after}, nil
	}
	l.enqueue(l.table.SetOffline(key))
	if !l.cfg.Scope.Owns(live) {
		return kube.Done, nil
	}
	absent := l.table.OfflineReason(key)
	l.events.Event(live, kube.Warning, fleet.ReasonOffline, absent+"; what it deployed stays as it is")
	l.log.WithField("cluster", key.String()).WithField("reason", absent).Info("cluster offline")
	return kube.Done, nil
}

// reconcileSilence decides which clusters have not answered promotions of a Bundle in
// time. Rollouts do not wait for these clusters until they report again. Before it
// reports a cluster as silent, it reads the objects from the API server: the watch may
// have missed a report.
func (l *livenessController) reconcileSilence(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !l.ownsBundle(key) {
		return kube.Done, nil
	}
	late, after := l.table.Overdue(key)
	if len(late) == 0 {
		return kube.Result{After: after}, nil
	}
	for _, o := range late {
		if err := l.confirmSilence(ctx, o); err != nil {
			for _, o := range late {
				l.table.ResetAck(o.Cluster)
			}
			return kube.Done, err
		}
	}
	_, after = l.table.Overdue(key)
	return kube.Result{After: after}, nil
}

// confirmSilence reads the deployment and the Cluster from the API server, stores them
// in the table, and marks the cluster as silent if that shows no new report.
func (l *livenessController) confirmSilence(ctx context.Context, o fleetstate.Overdue) error {
	bd, err := l.deployments.Get(ctx, o.Deployment)
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		l.stripDeployment(bd)
		l.enqueue(l.table.SetDeployment(bd))
	}
	c, err := l.clusters.Get(ctx, o.Cluster)
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		l.targeting.observeCluster(c)
	}
	delta := l.table.SetSilent(o.Cluster)
	l.enqueue(delta)
	if len(delta.Status) > 0 {
		l.log.WithField("cluster", o.Cluster.String()).WithField("reason", "no sign of life since a promotion").Info("cluster silent")
	}
	return nil
}
