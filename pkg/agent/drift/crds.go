package drift

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// crdsOf returns the CRDs of a chart's crds folders that exist in the cluster and are
// not in the manifest. Helm installs them once, so that a change of them is no drift. A
// CRD that the agent may not read is returned without its age.
func crdsOf(ctx context.Context, live Reader, names []string, objects map[ref]*seen) ([]report.Object, error) {
	found := make([]*report.Object, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, name := range names {
		key := kube.Key{Name: name}
		if objects[ref{kind: crdKind, key: key}] != nil {
			continue
		}
		group.Go(func() error {
			crd, err := live.Get(ctx, crdKind, key)
			if kube.IsGone(err) || reconcile.IsRequeue(err) {
				return nil
			}
			if err != nil && !reconcile.IsTerminal(err) {
				return fmt.Errorf("look at the CRDs of the chart: %w", err)
			}
			found[i] = &report.Object{Kind: crdKind.Kind, APIVersion: crdKind.GroupVersion().String(), Name: name}
			if err == nil {
				found[i].CreatedAt = metav1.NewTime(crd.GetCreationTimestamp().UTC())
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []report.Object
	for _, o := range found {
		if o != nil {
			out = append(out, *o)
		}
	}
	return out, nil
}
