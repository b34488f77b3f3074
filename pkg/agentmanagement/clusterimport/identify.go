package clusterimport

import (
	"context"
	"errors"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identifier"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// identify gives a new Cluster its identity. If its agent works for a former Cluster,
// which the new one replaces, it is the identity of the former Cluster, and before is
// that Cluster. A reconcile.RequeueAfter says that the Cluster has changed.
func (l *Loop) identify(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, namespace string) (before *fleet.Cluster, err error) {
	former, err := l.cfg.Moves.Former(ctx, c)
	if errors.Is(err, rancher.ErrUnseen) { // the Secret may be of another Cluster, and then has its name
		return nil, reconcile.RequeueError(workspace.ReasonRancherUnseen, rancher.Again, err)
	}
	if err != nil {
		return nil, err
	}
	if len(former) > 0 {
		if before, err = l.findFormerCluster(ctx, c, access, former, namespace); err != nil {
			return nil, err
		}
	}
	switch {
	case before != nil && !workspace.RecognisesAgent(c, before):
		err = l.cfg.Moves.CarryOver(ctx, c, before)
	case c.Spec.ClientID == "":
		named := c.DeepCopy()
		named.Spec.ClientID = identifier.New(16)
		_, err = l.clusters.Patch(ctx, c, named)
	default:
		return before, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, inProgress("the Cluster was given a clientID")
}

// findFormerCluster returns the Cluster among former for which the agent of a Cluster
// has worked; nil if there is none.
func (l *Loop) findFormerCluster(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, former []*fleet.Cluster, namespace string) (*fleet.Cluster, error) {
	d, err := l.dial(c, access, former...)
	if err != nil {
		return nil, err
	}
	namespaces := []string{namespace}
	for _, f := range former {
		if ns := f.Status.Agent.Namespace; ns != "" && !slices.Contains(namespaces, ns) {
			namespaces = append(namespaces, ns)
		}
	}
	before, err := d.FormerCluster(ctx, former, namespaces)
	return before, downstream.Plain(access.Server, err)
}

// dial returns a connection to the cluster of a Cluster. Objects of the Clusters in
// former count as its own.
func (l *Loop) dial(c *fleet.Cluster, access kubeconfig.Access, former ...*fleet.Cluster) (*downstream.Cluster, error) {
	mark := clusterimport.MarkFor(l.cfg.System.ManagerID, c)
	for _, f := range former {
		if f != nil {
			mark.Former = append(mark.Former, kube.KeyOf(f).String())
		}
	}
	d, err := downstream.Dial(l.client, access, mark, l.importPolicy())
	if err != nil {
		return nil, err
	}
	d.Issued = l.accountOwner
	return d, nil
}
