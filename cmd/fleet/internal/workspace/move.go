package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
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

// A readTransfer is one cluster on its way, as it is before.
type transfer struct {
	cluster     *fleet.Cluster
	management  *management.Cluster
	provisioned *provisioning.Cluster // with an annotation that would bring the cluster back, or nil
}

// Move changes the workspace of a cluster where Rancher keeps it. The process that maps
// Rancher's clusters creates the new Cluster, and then deletes the old one.
func (cs *clusterStore) Move(ctx context.Context, o MoveOptions) (string, error) {
	c, err := cs.findCluster(ctx, o)
	if err != nil {
		return "", err
	}
	name := c.Namespace + "/" + c.Name
	if c.Namespace == o.To {
		return "cluster " + name + " is there already", nil
	}
	t, err := cs.readTransfer(ctx, c, o.To)
	if err != nil {
		return "", err
	}
	if err := cs.checkDestination(ctx, t, o.To); err != nil {
		return "", err
	}
	if err := cs.agreed(ctx, t, o); err != nil {
		return "", err
	}
	if err := cs.writeWorkspace(ctx, t, o.To); err != nil {
		return "", err
	}
	return cs.awaitArrival(ctx, t, o)
}

// findCluster finds a cluster in any workspace, or in that of -n.
func (cs *clusterStore) findCluster(ctx context.Context, o MoveOptions) (*fleet.Cluster, error) {
	if err := cs.NamespaceError(ctx); err != nil {
		return nil, err
	}
	clusters, err := client.ListAs[fleet.Cluster](ctx, cs.Session, cli.MustKind("clusters"), "")
	if err != nil {
		return nil, err
	}
	hits, all := client.KeysNamed(clusters, o.Cluster)
	switch {
	case len(hits) > 1:
		return nil, fmt.Errorf("there are clusters %q in %s: say which with -n", o.Cluster, view.List(client.WorkspacesIn(hits), 3))
	case len(hits) == 0:
		return nil, cmp.Or(workspaceFirst(o, all), client.Unknown(cli.MustKind("clusters"), o.Cluster, cs.Scope, all))
	}
	for _, c := range clusters {
		if c.Name == hits[0].Name && c.Namespace == hits[0].Namespace {
			return c, nil
		}
	}
	return nil, errors.New("no cluster")
}

// readTransfer reads Rancher's objects of a cluster, and refuses what cannot be moved.
func (cs *clusterStore) readTransfer(ctx context.Context, c *fleet.Cluster, to string) (transfer, error) {
	t := transfer{cluster: c}
	id := c.Labels[fleet.LabelManagementCluster]
	if id == "" {
		if err := cs.MissingWorkspace(ctx, to); err != nil {
			return t, err
		}
		return t, fmt.Errorf("%w: cluster %s/%s is none of Rancher's, so that nobody here could bring its agent along; give that a token of the other workspace "+
			"(fleet install agent-token -n %s, applied there), then: fleet cluster forget -n %s %s", cli.ErrRefused, c.Namespace, c.Name, to, c.Namespace, c.Name)
	}
	u, err := cs.API.Get(ctx, managementClusters, "", id)
	if apierrors.IsNotFound(err) {
		return t, fmt.Errorf("cluster %s/%s says that it is Rancher's %s, which is not there: %w", c.Namespace, c.Name, id, err)
	}
	if err != nil {
		return t, client.DescribeServerError(cs.Server, err)
	}
	if t.management, err = client.Convert[management.Cluster](u); err != nil {
		return t, err
	}
	if why := workspace.MoveRefusal(t.management); why != "" {
		return t, fmt.Errorf("%w: cluster %s/%s cannot be moved: %s", cli.ErrRefused, c.Namespace, c.Name, why)
	}
	if workspace.Legacy(id) {
		return t, nil
	}
	found, err := cs.ListAll(ctx, client.Query{Resource: provisioningClusters})
	if err != nil && !apierrors.IsForbidden(err) {
		return t, err
	}
	clusters, err := client.AllAs[provisioning.Cluster](found)
	for _, p := range clusters {
		if set := p.Annotations[workspace.AnnotationWorkspaceName]; p.Status.ClusterName == id && set != "" && set != to {
			t.provisioned = p
		}
	}
	return t, err
}

// checkDestination returns an error for a workspace that does not exist, that has another cluster
// of that name, or into which the user may not bring clusters.
func (cs *clusterStore) checkDestination(ctx context.Context, t transfer, to string) error {
	u, err := cs.API.Get(ctx, client.Records, "", to)
	if apierrors.IsNotFound(err) {
		return cs.UnknownWorkspace(to, "; to make it: fleet workspace create "+to, cs.KnownWorkspaces(ctx))
	}
	if err != nil {
		return client.DescribeServerError(cs.Server, err)
	}
	record, err := client.Convert[metav1.PartialObjectMetadata](u)
	if err != nil {
		return err
	}
	if record.DeletionTimestamp != nil {
		return fmt.Errorf("%w: workspace %s is being deleted", cli.ErrRefused, to)
	}
	if err := cs.mayAdd(ctx, to); err != nil {
		return err
	}
	there, err := client.GetAs[fleet.Cluster](ctx, cs.Session, cli.MustKind("clusters").Resource(), to, t.cluster.Name)
	if err != nil {
		return err
	}
	if there != nil && there.Labels[fleet.LabelManagementCluster] != t.management.Name {
		return fmt.Errorf("%w: workspace %s has another cluster %s already", cli.ErrRefused, to, t.cluster.Name)
	}
	return nil
}

// agreed refuses a move that removes what runs on the cluster, unless that was
// agreed to.
func (cs *clusterStore) agreed(ctx context.Context, t transfer, o MoveOptions) error {
	if o.Yes || t.cluster.Status.Namespace == "" {
		return nil
	}
	r := &client.ExplainReader{S: cs.Session}
	deployed, err := client.List[fleet.BundleDeployment](ctx, r, client.Query{Resource: cli.MustKind("deployments").Resource(), Namespace: t.cluster.Status.Namespace})
	if err != nil {
		return err
	}
	bundles, err := client.List[fleet.Bundle](ctx, r, client.Query{Resource: cli.MustKind("bundles").Resource(), Namespace: o.To})
	if err != nil {
		return err
	}
	groups, err := client.List[fleet.ClusterGroup](ctx, r, client.Query{Resource: cli.MustKind("groups").Resource(), Namespace: o.To})
	if err != nil {
		return err
	}
	if len(r.Hidden) > 0 {
		r.PrintNotes()
		return fmt.Errorf("%w: what workspace %s would remove from cluster %s cannot be told; to move it all the same: --yes", cli.ErrRefused, o.To, t.cluster.Name)
	}
	if gone := view.Unserved(t.cluster, o.To, deployed, bundles, groups); len(gone) > 0 {
		return fmt.Errorf("%w: workspace %s does not deploy %s to cluster %s, so that it is removed there; to move it all the same: --yes",
			cli.ErrRefused, o.To, view.List(gone, 5), t.cluster.Name)
	}
	return nil
}

// writeWorkspace changes the workspace: only these fields, of the objects that were read.
func (cs *clusterStore) writeWorkspace(ctx context.Context, t transfer, to string) error {
	if p := t.provisioned; p != nil {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": p.ResourceVersion, "annotations": map[string]any{workspace.AnnotationWorkspaceName: to},
		}})
		if err != nil {
			return err
		}
		if _, err := cs.API.Patch(ctx, provisioningClusters, p.Namespace, p.Name, body); err != nil {
			return client.DescribeServerError(cs.Server, err)
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": t.management.ResourceVersion},
		"spec":     map[string]any{"fleetWorkspaceName": to},
	})
	if err != nil {
		return err
	}
	_, err = cs.API.Patch(ctx, managementClusters, "", t.management.Name, body)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody else has changed Rancher's cluster %s at the same moment; try again: %w", t.management.Name, err)
	}
	return client.DescribeServerError(cs.Server, err)
}

// awaitArrival waits until the Cluster is in its new workspace.
func (cs *clusterStore) awaitArrival(ctx context.Context, t transfer, o MoveOptions) (string, error) {
	was := t.cluster.Namespace + "/" + t.cluster.Name
	if o.Timeout == 0 {
		return fmt.Sprintf("cluster %s is to move to workspace %s", was, o.To), nil
	}
	err := cs.pollUntil(ctx, o.Timeout, func() (bool, error) {
		c, err := client.GetAs[fleet.Cluster](ctx, cs.Session, cli.MustKind("clusters").Resource(), o.To, t.cluster.Name)
		return c != nil && c.Labels[fleet.LabelManagementCluster] == t.management.Name, err
	})
	if errors.Is(err, errUnseen) {
		return "", fmt.Errorf("%w: cluster %s was not seen in workspace %s within %s; the order stands (Rancher moves clusters that are Ready only)",
			cli.ErrNotReady, was, o.To, view.Age(o.Timeout))
	}
	if err != nil {
		return "", err
	}
	cs.Std.Note("to see its agent come: fleet wait cluster/%s -n %s", t.cluster.Name, o.To)
	return fmt.Sprintf("cluster %s has moved to workspace %s", was, o.To), nil
}
