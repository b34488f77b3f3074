package local

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// moveLook is when a move of the local agent that waits for something is looked at
// again; watches report most of its changes.
const moveLook = 2 * time.Second

// removeFormerAgents removes earlier local agents in other namespaces, once the present
// one works. The error is a reconcile.RequeueAfter until they are removed. All its
// state is in the Cluster, so that a restarted manager continues.
func (l *Loop) removeFormerAgents(ctx context.Context, c *fleet.Cluster, a registration.Agent, access kube.Access) error {
	move := registration.LocalMoveOf(c)
	if len(move.Leaves) == 0 {
		return nil
	}
	if !l.cfg.Settings.Bootstrap.LocalAgentDisabled {
		ordered, err := l.cfg.Agents.IsCurrent(ctx, c)
		if err != nil {
			return err
		}
		sight := registration.LocalState{At: c.Spec.AgentNamespace, Seen: c.Status.Agent.Namespace, Ordered: ordered}
		if wait := move.MayLeave(sight); wait != "" {
			return reconcile.RequeueError(fleet.ReasonProgressing, moveLook, errors.New(wait))
		}
	}
	own, err := l.cfg.Connect(access)
	if err != nil {
		return err
	}
	d := downstream.New(own, clusterimport.MarkFor(l.cfg.System.ManagerID, c))
	d.Issued = func(context.Context, clusterimport.Account) (string, error) { return "", nil } // marks show the owner
	left := move
	for _, namespace := range slices.Clone(move.Leaves) {
		err := d.Move(ctx, downstream.Order{Agent: a, From: namespace})
		if err != nil {
			return err
		}
		left = left.WithoutNamespace(namespace)
		l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).
			WithField("reason", "the agent lives in namespace "+a.Namespace).Info("local agent in namespace " + namespace + " removed")
	}
	_, err = l.clusters.Patch(ctx, c, left.Annotate(c))
	return err
}
