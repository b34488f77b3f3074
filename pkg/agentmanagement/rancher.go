package agentmanagement

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/imports"
)

// Kinds of Rancher's.
var (
	rancherProvisioning = provisioning.GroupVersion.WithKind("Cluster")
	rancherManagement   = management.GroupVersion.WithKind("Cluster")
)

// rancher reads what Rancher's objects say, which members of workspaces cannot
// write. Where there is no Rancher they say nothing.
type rancher struct {
	live *kube.Live
}

func newRancher(c *kube.Client) rancher {
	live, err := kube.NewLive(c)
	if err != nil {
		return rancher{} // then Rancher proves nothing
	}
	return rancher{live}
}

// get reads an object; nil where there is none, or no such kind. Whoever has no
// right to see it knows nothing: that is an error.
func (r rancher) get(ctx context.Context, kind schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error) {
	if r.live == nil || key.Name == "" {
		return nil, nil
	}
	o, err := r.live.Get(ctx, kind, key)
	if kube.IsGone(err) || fault.IsWait(err) {
		return nil, nil
	}
	return o, err
}

// managementOf is the management Cluster of a Fleet Cluster; nil where it has none.
func (r rancher) managementOf(ctx context.Context, c *fleet.Cluster) (*management.Cluster, error) {
	o, err := r.get(ctx, rancherManagement, kube.Key{Name: c.Labels[fleet.LabelManagementCluster]})
	if o == nil || err != nil {
		return nil, err
	}
	out := &management.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, nil //nolint:nilerr // what cannot be read proves nothing
	}
	return out, nil
}

// proof is what Rancher's objects say about the Secret that a Cluster names. What may
// not be seen proves nothing.
func (r rancher) proof(ctx context.Context, c *fleet.Cluster) (imports.Proof, error) {
	out, err := r.look(ctx, c)
	if kube.IsForbidden(err) {
		return imports.Proof{}, nil
	}
	return out, err
}

// look gathers a proof. The provisioning Cluster bears the Secret's name without the
// end, or the Fleet Cluster's.
func (r rancher) look(ctx context.Context, c *fleet.Cluster) (imports.Proof, error) {
	m, err := r.managementOf(ctx, c)
	if m == nil || err != nil {
		return imports.Proof{}, err
	}
	out := imports.Proof{Workspace: m.Spec.FleetWorkspaceName}
	in := imports.NamespaceOfSecret(c)
	for _, name := range []string{strings.TrimSuffix(c.Spec.KubeConfigSecret, "-kubeconfig"), c.Name} {
		o, err := r.get(ctx, rancherProvisioning, kube.Key{Namespace: in, Name: name})
		if err != nil {
			return imports.Proof{}, err
		}
		if o == nil {
			continue
		}
		out.Secret, _, _ = unstructured.NestedString(o.Object, "status", "clientSecretName")
		out.Cluster, _, _ = unstructured.NestedString(o.Object, "status", "clusterName")
		if out.Secret == c.Spec.KubeConfigSecret && out.Cluster == m.Name {
			break
		}
	}
	return out, nil
}
