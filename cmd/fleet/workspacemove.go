package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Rancher's Clusters in the cluster.
var (
	managementClusters   = management.GroupVersion.WithResource("clusters")
	provisioningClusters = provisioning.GroupVersion.WithResource("clusters")
)

// A transfer is one cluster on its way, as it is before.
type transfer struct {
	cluster     *fleet.Cluster
	management  *management.Cluster
	provisioned *provisioning.Cluster // with an annotation that would bring the cluster back, or nil
}

// move changes the workspace of a cluster where Rancher keeps it. The process that maps
// Rancher's clusters creates the new Cluster, and then deletes the old one.
func (k *clusterStore) move(ctx context.Context, o moveOptions) (string, error) {
	c, err := k.wherever(ctx, o)
	if err != nil {
		return "", err
	}
	name := c.Namespace + "/" + c.Name
	if c.Namespace == o.to {
		return "cluster " + name + " is there already", nil
	}
	t, err := k.transfer(ctx, c, o.to)
	if err != nil {
		return "", err
	}
	if err := k.room(ctx, t, o.to); err != nil {
		return "", err
	}
	if err := k.agreed(ctx, t, o); err != nil {
		return "", err
	}
	if err := k.order(ctx, t, o.to); err != nil {
		return "", err
	}
	return k.arrival(ctx, t, o)
}

// wherever finds a cluster in any workspace, or in that of -n.
func (k *clusterStore) wherever(ctx context.Context, o moveOptions) (*fleet.Cluster, error) {
	if err := k.missing(ctx); err != nil {
		return nil, err
	}
	clusters, err := listAs[fleet.Cluster](ctx, k.session, mustKind("clusters"), "")
	if err != nil {
		return nil, err
	}
	hits, all := keysNamed(clusters, o.cluster)
	switch {
	case len(hits) > 1:
		return nil, fmt.Errorf("there are clusters %q in %s: say which with -n", o.cluster, view.List(workspacesIn(hits), 3))
	case len(hits) == 0:
		return nil, cmp.Or(workspaceFirst(o, all), mustKind("clusters").unknown(o.cluster, k.scope, all))
	}
	for _, c := range clusters {
		if c.Name == hits[0].Name && c.Namespace == hits[0].Namespace {
			return c, nil
		}
	}
	return nil, errors.New("no cluster")
}

// transfer reads Rancher's objects of a cluster, and refuses what cannot be moved.
func (k *clusterStore) transfer(ctx context.Context, c *fleet.Cluster, to string) (transfer, error) {
	t := transfer{cluster: c}
	id := c.Labels[fleet.LabelManagementCluster]
	if id == "" {
		if err := k.missingWorkspace(ctx, to); err != nil {
			return t, err
		}
		return t, fmt.Errorf("%w: cluster %s/%s is none of Rancher's, so that nobody here could bring its agent along; give that a token of the other workspace "+
			"(fleet install agent-token -n %s, applied there), then: fleet cluster forget -n %s %s", errRefused, c.Namespace, c.Name, to, c.Namespace, c.Name)
	}
	u, err := k.api.Get(ctx, managementClusters, "", id)
	if apierrors.IsNotFound(err) {
		return t, fmt.Errorf("cluster %s/%s says that it is Rancher's %s, which is not there: %w", c.Namespace, c.Name, id, err)
	}
	if err != nil {
		return t, reached(k.server, err)
	}
	if t.management, err = as[management.Cluster](u); err != nil {
		return t, err
	}
	if why := workspace.Movable(t.management); why != "" {
		return t, fmt.Errorf("%w: cluster %s/%s cannot be moved: %s", errRefused, c.Namespace, c.Name, why)
	}
	if workspace.Legacy(id) {
		return t, nil
	}
	found, err := k.all(ctx, query{resource: provisioningClusters})
	if err != nil && !apierrors.IsForbidden(err) {
		return t, err
	}
	clusters, err := allAs[provisioning.Cluster](found)
	for _, p := range clusters {
		if set := p.Annotations[workspace.AnnotationWorkspaceName]; p.Status.ClusterName == id && set != "" && set != to {
			t.provisioned = p
		}
	}
	return t, err
}

// room returns an error for a workspace that does not exist, that has another cluster
// of that name, or into which the user may not bring clusters.
func (k *clusterStore) room(ctx context.Context, t transfer, to string) error {
	u, err := k.api.Get(ctx, records, "", to)
	if apierrors.IsNotFound(err) {
		return k.unknownWorkspace(to, "; to make it: fleet workspace create "+to, k.knownWorkspaces(ctx))
	}
	if err != nil {
		return reached(k.server, err)
	}
	record, err := as[metav1.PartialObjectMetadata](u)
	if err != nil {
		return err
	}
	if record.DeletionTimestamp != nil {
		return fmt.Errorf("%w: workspace %s is being deleted", errRefused, to)
	}
	if err := k.mayAdd(ctx, to); err != nil {
		return err
	}
	there, err := getAs[fleet.Cluster](ctx, k.session, mustKind("clusters").resource(), to, t.cluster.Name)
	if err != nil {
		return err
	}
	if there != nil && there.Labels[fleet.LabelManagementCluster] != t.management.Name {
		return fmt.Errorf("%w: workspace %s has another cluster %s already", errRefused, to, t.cluster.Name)
	}
	return nil
}

// agreed refuses a move that removes what runs on the cluster, unless that was
// agreed to.
func (k *clusterStore) agreed(ctx context.Context, t transfer, o moveOptions) error {
	if o.yes || t.cluster.Status.Namespace == "" {
		return nil
	}
	r := &reading{s: k.session}
	deployed, err := list[fleet.BundleDeployment](ctx, r, query{resource: mustKind("deployments").resource(), namespace: t.cluster.Status.Namespace})
	if err != nil {
		return err
	}
	bundles, err := list[fleet.Bundle](ctx, r, query{resource: mustKind("bundles").resource(), namespace: o.to})
	if err != nil {
		return err
	}
	groups, err := list[fleet.ClusterGroup](ctx, r, query{resource: mustKind("groups").resource(), namespace: o.to})
	if err != nil {
		return err
	}
	if len(r.hidden) > 0 {
		r.note()
		return fmt.Errorf("%w: what workspace %s would remove from cluster %s cannot be told; to move it all the same: --yes", errRefused, o.to, t.cluster.Name)
	}
	if gone := view.Unserved(t.cluster, o.to, deployed, bundles, groups); len(gone) > 0 {
		return fmt.Errorf("%w: workspace %s does not deploy %s to cluster %s, so that it is removed there; to move it all the same: --yes",
			errRefused, o.to, view.List(gone, 5), t.cluster.Name)
	}
	return nil
}

// order changes the workspace: only these fields, of the objects that were read.
func (k *clusterStore) order(ctx context.Context, t transfer, to string) error {
	if p := t.provisioned; p != nil {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": p.ResourceVersion, "annotations": map[string]any{workspace.AnnotationWorkspaceName: to},
		}})
		if err != nil {
			return err
		}
		if _, err := k.api.Patch(ctx, provisioningClusters, p.Namespace, p.Name, body); err != nil {
			return reached(k.server, err)
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": t.management.ResourceVersion},
		"spec":     map[string]any{"fleetWorkspaceName": to},
	})
	if err != nil {
		return err
	}
	_, err = k.api.Patch(ctx, managementClusters, "", t.management.Name, body)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody else has changed Rancher's cluster %s at the same moment; try again: %w", t.management.Name, err)
	}
	return reached(k.server, err)
}

// arrival waits until the Cluster is in its new workspace.
func (k *clusterStore) arrival(ctx context.Context, t transfer, o moveOptions) (string, error) {
	was := t.cluster.Namespace + "/" + t.cluster.Name
	if o.timeout == 0 {
		return fmt.Sprintf("cluster %s is to move to workspace %s", was, o.to), nil
	}
	err := k.until(ctx, o.timeout, func() (bool, error) {
		c, err := getAs[fleet.Cluster](ctx, k.session, mustKind("clusters").resource(), o.to, t.cluster.Name)
		return c != nil && c.Labels[fleet.LabelManagementCluster] == t.management.Name, err
	})
	if errors.Is(err, errUnseen) {
		return "", fmt.Errorf("%w: cluster %s was not seen in workspace %s within %s; the order stands (Rancher moves clusters that are Ready only)",
			errNotReady, was, o.to, view.Age(o.timeout))
	}
	if err != nil {
		return "", err
	}
	k.std.Note("to see its agent come: fleet wait cluster/%s -n %s", t.cluster.Name, o.to)
	return fmt.Sprintf("cluster %s has moved to workspace %s", was, o.to), nil
}
