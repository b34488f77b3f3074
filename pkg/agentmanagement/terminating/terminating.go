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
func (w *Workspaces) IsDeleted(ctx context.Context, workspace string) (bool, error) {
	ns, err := w.client.NamespaceLifetime(ctx, workspace)
	return ns.EndText() != "", err
}

// ClusterMustStay reports whether a Cluster that is being deleted must stay: it is
// deleted with its namespace or its kind, and not by a user.
func (w *Workspaces) ClusterMustStay(ctx context.Context, c *fleet.Cluster) (bool, error) {
	if waits, err := w.HasPendingBundles(ctx, c.Namespace); waits || err != nil {
		return waits, err
	}
	kind, err := w.client.KindLifetime(ctx, "Cluster")
	if err != nil || kind.EndText() == "" {
		return false, err
	}
	return w.bundlesWait(ctx, c.Namespace, true)
}

// HasPendingBundles reports whether a workspace is being deleted and has Bundles with
// deployments.
func (w *Workspaces) HasPendingBundles(ctx context.Context, workspace string) (bool, error) {
	if w.waitedLately(workspace) {
		return true, nil
	}
	ns, err := w.client.NamespaceLifetime(ctx, workspace)
	if err != nil || ns.EndText() == "" {
		return false, err
	}
	waits, err := w.bundlesWait(ctx, workspace, false)
	if waits {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waits[workspace] = w.now()
	}
	return waits, err
}

// waitedLately reports whether a workspace has waited at a recent call.
func (w *Workspaces) waitedLately(workspace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now().Sub(w.waits[workspace]) < undecidedFor {
		return true
	}
	delete(w.waits, workspace)
	return false
}

// bundlesWait reports whether a workspace has Bundles with the manager's finalizer;
// deleted restricts that to Bundles that are being deleted.
func (w *Workspaces) bundlesWait(ctx context.Context, workspace string, deleted bool) (bool, error) {
	list, err := w.client.ListMeta(ctx, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{Namespace: workspace})
	if kube.IsGone(err) {
		return false, nil // the kind is deleted, with all Bundles
	}
	return slices.ContainsFunc(list, func(b *cache.Meta) bool {
		return slices.Contains(b.Finalizers, fleet.FinalizerBundle) && (!deleted || b.DeletionTimestamp != nil)
	}), err
}
