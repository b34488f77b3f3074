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

// isOwnAgent reports whether the agent in a namespace uses a credential that this
// manager has issued for this Cluster, or for one that it replaces.
func (cl *Cluster) isOwnAgent(ctx context.Context, namespace string) (bool, error) {
	of, err := cl.clusterOfAgent(ctx, namespace)
	return of != "" && (of == cl.Mark.Workspace+"/"+cl.Mark.Cluster || slices.Contains(cl.Mark.Former, of)), err
}

// clusterOfAgent returns the Cluster, "<namespace>/<name>", for which the credential of
// the agent in a namespace was issued; empty if this manager did not issue it.
func (cl *Cluster) clusterOfAgent(ctx context.Context, namespace string) (string, error) {
	s, err := cl.secrets.Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgent})
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
	return cl.Issued(ctx, account)
}

// FormerCluster returns the Cluster among former for which an agent in one of the
// namespaces has worked; nil if there is none. The credential of the agent, or the mark
// on its Deployment, names the Cluster.
func (cl *Cluster) FormerCluster(ctx context.Context, former []*fleet.Cluster, namespaces []string) (*fleet.Cluster, error) {
	for _, namespace := range namespaces {
		of, err := cl.clusterOfAgent(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if of == "" {
			have, err := cl.deployments.Get(ctx, kube.Key{Namespace: namespace, Name: fleet.SecretAgent})
			if kube.IsGone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			of = cl.Mark.FormerOf(have)
		}
		for _, f := range former {
			if kube.KeyOf(f).String() == of {
				return f, nil
			}
		}
	}
	return nil, nil
}
