package downstream

import (
	"context"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// known reports whether the agent in a namespace works with a credential that
// this manager has issued for this Cluster, or for one whose place it takes.
func (d *Cluster) known(ctx context.Context, in string) (bool, error) {
	of, err := d.worksFor(ctx, in)
	return of != "" && (of == d.Mark.Workspace+"/"+d.Mark.Cluster || slices.Contains(d.Mark.Former, of)), err
}

// worksFor is the Cluster, "<namespace>/<name>", for which the credential of the
// agent in a namespace was issued; empty: none of this manager's.
func (d *Cluster) worksFor(ctx context.Context, in string) (string, error) {
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
	return d.Issued(ctx, account)
}

// Before is which of some Clusters the agent in one of some namespaces has worked for
// until now: nil for none of them. Its credential says so, or the mark on its
// Deployment.
func (d *Cluster) Before(ctx context.Context, former []*fleet.Cluster, in []string) (*fleet.Cluster, error) {
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
			of = d.Mark.FormerOf(have)
		}
		for _, f := range former {
			if kube.KeyOf(f).String() == of {
				return f, nil
			}
		}
	}
	return nil, nil
}
