// Package rancher reads what Rancher's objects say about a Cluster. Members of workspaces
// cannot write these objects. Without Rancher there are none.
package rancher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Kinds of Rancher's.
var (
	provisioningKind = provisioning.GroupVersion.WithKind("Cluster")
	managementKind   = management.GroupVersion.WithKind("Cluster")
)

// ErrUnseen says that Rancher's objects cannot be read. It neither proves nor disproves
// anything.
var ErrUnseen = errors.New("objects of Rancher's cannot be seen")

// Again is when what cannot be seen is looked at again.
const Again = 30 * time.Second

// A Reader reads Rancher's objects.
type Reader struct {
	live *kube.Live
	err  error // why there is none
}

// NewReader makes a Reader that uses a client.
func NewReader(c *kube.Client) Reader {
	live, err := kube.NewLive(c)
	return Reader{live, err}
}

// get reads an object; nil if it does not exist. If the kind is not served, or not now,
// the error is a reconcile.RequeueAfter.
func (r Reader) get(ctx context.Context, kind schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error) {
	if key.Name == "" {
		return nil, nil
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnseen, r.err)
	}
	o, err := r.live.Get(ctx, kind, key)
	switch {
	case kube.IsGone(err):
		return nil, nil
	case kube.IsForbidden(err):
		return nil, fmt.Errorf("%w: %w", ErrUnseen, err)
	}
	return o, err
}

// ManagementOf returns the management Cluster of a Fleet Cluster; nil if it has none.
// Errors are those of get, and ErrUnseen for an object that cannot be read.
func (r Reader) ManagementOf(ctx context.Context, c *fleet.Cluster) (*management.Cluster, error) {
	o, err := r.get(ctx, managementKind, kube.Key{Name: c.Labels[fleet.LabelManagementCluster]})
	if o == nil || err != nil {
		return nil, err
	}
	out := &management.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("%w: read %s %s: %w", ErrUnseen, managementKind.Kind, o.GetName(), err)
	}
	return out, nil
}

// Proof returns what Rancher's objects say about the Secret that a Cluster names.
// Objects that may not be read prove nothing.
func (r Reader) Proof(ctx context.Context, c *fleet.Cluster) (clusterimport.Proof, error) {
	out, err := r.gatherProof(ctx, c)
	if errors.Is(err, ErrUnseen) || reconcile.IsRequeue(err) {
		return clusterimport.Proof{}, nil
	}
	return out, err
}

// gatherProof gathers a proof. The provisioning Cluster has the name of the Secret
// without its suffix, or the name of the Fleet Cluster.
func (r Reader) gatherProof(ctx context.Context, c *fleet.Cluster) (clusterimport.Proof, error) {
	m, err := r.ManagementOf(ctx, c)
	if m == nil || err != nil {
		return clusterimport.Proof{}, err
	}
	out := clusterimport.Proof{Workspace: m.Spec.FleetWorkspaceName}
	in := clusterimport.NamespaceOfSecret(c)
	for _, name := range []string{strings.TrimSuffix(c.Spec.KubeConfigSecret, "-kubeconfig"), c.Name} {
		o, err := r.get(ctx, provisioningKind, kube.Key{Namespace: in, Name: name})
		if err != nil {
			return clusterimport.Proof{}, err
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
