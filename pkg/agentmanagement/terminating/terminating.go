// Package terminating reports which workspaces are being deleted while their Bundles
// wait for a user, or for agents that uninstall.
package terminating

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

const (
	// Again is when a Cluster, or a credential, is looked at again that stays
	// until a person has decided about the Bundles of its workspace.
	Again = 5 * time.Second
	// undecidedFor is for how long it is believed that a person has not: one look is
	// enough for all Clusters of a workspace.
	undecidedFor = 2 * time.Second
)

// Workspaces knows which workspaces wait. Until they do not, agents keep their Clusters and
// credentials: without them no agent could uninstall anything any more.
type Workspaces struct {
	client *kube.Client
	now    func() time.Time

	mu    sync.Mutex
	waits map[string]time.Time // workspaces that waited then
}

// New makes a Workspaces; now is the clock.
func New(c *kube.Client, now func() time.Time) *Workspaces {
	return &Workspaces{client: c, now: now, waits: map[string]time.Time{}}
}

// IsDeleted reports whether the namespace of a workspace is being deleted, or does not
// exist.
func (t *Workspaces) IsDeleted(ctx context.Context, workspace string) (bool, error) {
	ns, err := t.client.NamespaceLifetime(ctx, workspace)
	return ns.EndText() != "", err
}

// ClusterMustStay reports whether a Cluster that is being deleted must stay: it is
// deleted with its namespace or its kind, and not by a user.
func (t *Workspaces) ClusterMustStay(ctx context.Context, c *fleet.Cluster) (bool, error) {
	if waits, err := t.HasPendingBundles(ctx, c.Namespace); waits || err != nil {
		return waits, err
	}
	kind, err := t.client.KindLifetime(ctx, "Cluster")
	if err != nil || kind.EndText() == "" {
		return false, err
	}
	return t.bundlesWait(ctx, c.Namespace, true)
}

// HasPendingBundles reports whether a workspace is being deleted and has Bundles with
// deployments.
func (t *Workspaces) HasPendingBundles(ctx context.Context, workspace string) (bool, error) {
	if t.waitedLately(workspace) {
		return true, nil
	}
	ns, err := t.client.NamespaceLifetime(ctx, workspace)
	if err != nil || ns.EndText() == "" {
		return false, err
	}
	waits, err := t.bundlesWait(ctx, workspace, false)
	if waits {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waits[workspace] = t.now()
	}
	return waits, err
}

// waitedLately reports whether a workspace has waited at a recent call.
func (t *Workspaces) waitedLately(workspace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Sub(t.waits[workspace]) < undecidedFor {
		return true
	}
	delete(t.waits, workspace)
	return false
}

// bundlesWait reports whether a workspace has Bundles with the manager's finalizer;
// deleted restricts that to Bundles that are being deleted.
func (t *Workspaces) bundlesWait(ctx context.Context, workspace string, deleted bool) (bool, error) {
	list, err := t.client.ListMeta(ctx, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{Namespace: workspace})
	if kube.IsGone(err) {
		return false, nil // the kind is deleted, with all Bundles
	}
	return slices.ContainsFunc(list, func(b *cache.Meta) bool {
		return slices.Contains(b.Finalizers, fleet.FinalizerBundle) && (!deleted || b.DeletionTimestamp != nil)
	}), err
}
