package agentmanagement

import (
	"context"
	"errors"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/identifier"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// known reports whether the agent in a namespace works with a credential that
// this manager has issued for this Cluster, or for one whose place it takes.
func (d *downstream) known(ctx context.Context, in string) (bool, error) {
	of, err := d.worksFor(ctx, in)
	return of != "" && (of == d.mark.Workspace+"/"+d.mark.Cluster || slices.Contains(d.mark.Former, of)), err
}

// worksFor is the Cluster, "<namespace>/<name>", for which the credential of the
// agent in a namespace was issued; empty: none of this manager's.
func (d *downstream) worksFor(ctx context.Context, in string) (string, error) {
	s, err := d.secrets.Get(ctx, kube.Key{Namespace: in, Name: fleet.SecretAgent})
	if err != nil {
		return "", kube.IgnoreGone(err)
	}
	a, err := kubeconfig.Parse(s.Data[registration.KeyKubeconfig])
	if err != nil {
		return "", nil //nolint:nilerr // whatever it is, it is not ours
	}
	account := clusterimport.AccountOf(a.Token)
	if account.UID == "" {
		return "", nil
	}
	return d.issued(ctx, account)
}

// before is which of some Clusters the agent in one of some namespaces has worked for
// until now: nil for none of them. Its credential says so, or the mark on its
// Deployment.
func (d *downstream) before(ctx context.Context, former []*fleet.Cluster, in []string) (*fleet.Cluster, error) {
	for _, namespace := range in {
		of, err := d.worksFor(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if of == "" {
			have, err := d.deployments.Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgent})
			if kube.IsGone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			of = d.mark.FormerOf(have)
		}
		for _, f := range former {
			if kube.KeyOf(f).String() == of {
				return f, nil
			}
		}
	}
	return nil, nil
}

// identify gives a new Cluster its identity. If its agent has worked for another
// Cluster until now, which the new one replaces, that is the identity of the former
// Cluster; before is then the former Cluster. A reconcile.RequeueAfter says that the
// Cluster has changed.
func (l *importLoop) identify(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, in string) (before *fleet.Cluster, err error) {
	former, err := l.moves.Former(ctx, c)
	if errors.Is(err, rancher.ErrUnseen) { // it may be another one's, and then has that one's name
		return nil, reconcile.RequeueError(workspace.ReasonRancherUnseen, rancher.Again, err)
	}
	if err != nil {
		return nil, err
	}
	if len(former) > 0 {
		if before, err = l.recognise(ctx, c, access, former, in); err != nil {
			return nil, err
		}
	}
	switch {
	case before != nil && !workspace.Recognises(c, before):
		err = l.moves.Carry(ctx, c, before)
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
	return nil, l.underWay("the Cluster was given a clientID")
}

// recognise finds out which of some Clusters the agent of another one has worked for.
func (l *importLoop) recognise(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, former []*fleet.Cluster, in string) (*fleet.Cluster, error) {
	d, err := l.dial(c, access, former...)
	if err != nil {
		return nil, err
	}
	namespaces := []string{in}
	for _, f := range former {
		if ns := f.Status.Agent.Namespace; ns != "" && !slices.Contains(namespaces, ns) {
			namespaces = append(namespaces, ns)
		}
	}
	before, err := d.before(ctx, former, namespaces)
	return before, plain(access.Server, err)
}

// dial is a connection to the cluster of a Cluster, for which objects of some others
// are its own.
func (l *importLoop) dial(c *fleet.Cluster, access kubeconfig.Access, former ...*fleet.Cluster) (*downstream, error) {
	mark := clusterimport.MarkFor(l.system.ManagerID, c)
	for _, f := range former {
		if f != nil {
			mark.Former = append(mark.Former, kube.KeyOf(f).String())
		}
	}
	d, err := dial(l.client, access, mark, l.importPolicy())
	if err != nil {
		return nil, err
	}
	d.issued = l.issued
	return d, nil
}
