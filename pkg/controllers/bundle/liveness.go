package bundle

import (
	"context"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// eventOnline is the reason of the event about an agent that is back.
const eventOnline = "Online"

// reconcileLife finds out whether the agent of a cluster has been silent for too long.
// Before it says so it reads the Cluster from the API server: the manager itself may
// have missed the check-ins.
func (e *Engine) reconcileLife(ctx context.Context, key kube.Key) (kube.Result, error) {
	silent, after := e.table.Silent(key)
	if !silent {
		return kube.Result{After: after}, nil
	}
	live, err := e.clusters.Get(ctx, key)
	if kube.IsGone(err) {
		return kube.Done, nil
	}
	if err != nil {
		return kube.Done, err
	}
	e.observeCluster(live)
	if silent, after = e.table.Silent(key); !silent {
		return kube.Result{After: after}, nil
	}
	e.enqueue(e.table.SetOffline(key))
	if !e.cfg.Scope.Owns(live) {
		return kube.Done, nil
	}
	absent := e.table.Absent(key)
	e.events.Event(live, kube.Warning, fleet.ReasonOffline, absent+"; what it deployed stays as it is")
	e.log.WithField("cluster", key.String()).WithField("reason", absent).Info("cluster offline")
	return kube.Done, nil
}

// observeCluster stores a Cluster as the API server returned it, before the watch
// reports it.
func (e *Engine) observeCluster(c *fleet.Cluster) {
	e.stripCluster(c)
	delta, change := e.table.SetCluster(c)
	e.enqueue(delta)
	e.clusterChanged(c, change)
}

// revived emits an event for an agent that reports after it was silent, or for the
// first time: away is 0 then. Orders and versions that waited for the agent are looked
// at.
func (e *Engine) revived(c *fleet.Cluster, away time.Duration) {
	if e.cfg.Scope.Owns(c) {
		if away > 0 {
			e.events.Event(c, kube.Normal, eventOnline, "the agent reports again after "+away.Round(time.Second).String())
		}
		e.log.WithField("cluster", kube.KeyOf(c).String()).Info("cluster online")
	}
	for _, key := range e.table.BundlesOn(kube.KeyOf(c)) {
		e.bundleController.Add(key)
	}
}

// reconcileSilence finds out which clusters have left promotions of a Bundle unanswered
// for too long. Rollouts do not wait for these clusters until they report again. Before
// it says so it reads the objects from the API server: the manager itself may have
// missed their reports.
func (e *Engine) reconcileSilence(ctx context.Context, key kube.Key) (kube.Result, error) {
	if !e.mine(key) {
		return kube.Done, nil
	}
	late, after := e.table.Overdue(key)
	if len(late) == 0 {
		return kube.Result{After: after}, nil
	}
	for _, o := range late {
		if err := e.confirmSilence(ctx, o); err != nil {
			for _, o := range late {
				e.table.ResetAck(o.Cluster)
			}
			return kube.Done, err
		}
	}
	_, after = e.table.Overdue(key)
	return kube.Result{After: after}, nil
}

// confirmSilence looks for a sign of life of a cluster at the API server.
func (e *Engine) confirmSilence(ctx context.Context, o fleetstate.Overdue) error {
	bd, err := e.deployments.Get(ctx, o.Deployment)
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		e.stripDeployment(bd)
		e.enqueue(e.table.SetDeployment(bd))
	}
	c, err := e.clusters.Get(ctx, o.Cluster)
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		e.observeCluster(c)
	}
	delta := e.table.SetSilent(o.Cluster)
	e.enqueue(delta)
	if len(delta.Status) > 0 {
		e.log.WithField("cluster", o.Cluster.String()).WithField("reason", "no sign of life since a promotion").Info("cluster silent")
	}
	return nil
}
