package main

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

// lookFurther reads the namespaces to which mappings lead the Bundle, and the clusters,
// groups and deployments there. It leaves out what the user may not see, with a
// warning.
func (s *source) lookFurther(ctx context.Context, in *preview.Input) error {
	plural, _, _ := fleet.Resource("BundleNamespaceMapping")
	var err error
	if in.Mappings, err = everyAs[fleet.BundleNamespaceMapping](ctx, s.live,
		query{resource: fleet.GroupVersion.WithResource(plural), namespace: s.bundle.Namespace}); err != nil || len(in.Mappings) == 0 {
		return err
	}
	if in.Namespaces, err = everyAs[corev1.Namespace](ctx, s.live, query{resource: namespaces, labels: fleet.LabelManaged + "!=true"}); err != nil {
		return err
	}
	labels := fleet.LabelBundleName + "=" + s.bundle.Name + "," + fleet.LabelBundleNamespace + "=" + s.bundle.Namespace
	for _, ns := range preview.ReachOf(*in).Namespaces() {
		clusters, err := everyAs[fleet.Cluster](ctx, s.live, query{resource: mustKind("clusters").resource(), namespace: ns})
		if err != nil {
			return err
		}
		groups, err := everyAs[fleet.ClusterGroup](ctx, s.live, query{resource: mustKind("groups").resource(), namespace: ns})
		if err != nil {
			return err
		}
		deployments, err := everyAs[fleet.BundleDeployment](ctx, s.live, query{
			resource: mustKind("deployments").resource(), labels: labels + "," + fleet.LabelClusterNamespace + "=" + ns})
		if err != nil {
			return err
		}
		in.Clusters, in.Groups, in.Deployments = append(in.Clusters, clusters...), append(in.Groups, groups...), append(in.Deployments, deployments...)
	}
	return nil
}

// everyAs lists what one query finds. For objects that the user may not list it returns
// nothing and prints a warning.
func everyAs[T any](ctx context.Context, s *session, q query) ([]*T, error) {
	items, _, err := s.listed(ctx, q)
	if apierrors.IsForbidden(err) {
		s.std.Note("warning: not yours to see: %s in %s; clusters of other namespaces may be missing here", q.resource.Resource, cmp.Or(q.namespace, "all namespaces"))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return allAs[T](items)
}
