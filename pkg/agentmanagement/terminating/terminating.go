// Package terminating finds the workspaces that are being deleted and whose Bundles
// wait for a person, or for agents that uninstall.
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

// New makes what knows them; now is the clock.
func New(c *kube.Client, now func() time.Time) *Workspaces {
	return &Workspaces{client: c, now: now, waits: map[string]time.Time{}}
}

// Ends reports whether the namespace of a workspace is being deleted, or is gone.
func (t *Workspaces) Ends(ctx context.Context, workspace string) (bool, error) {
	ns, err := t.client.NamespaceLifetime(ctx, workspace)
	return ns.Ending() != "", err
}

// ClusterWaits reports whether a Cluster that is being deleted has to stay: it goes
// with its namespace or its kind, and not because a person has deleted it.
func (t *Workspaces) ClusterWaits(ctx context.Context, c *fleet.Cluster) (bool, error) {
	if waits, err := t.WorkspaceWaits(ctx, c.Namespace); waits || err != nil {
		return waits, err
	}
	kind, err := t.client.KindLifetime(ctx, "Cluster")
	if err != nil || kind.Ending() == "" {
		return false, err
	}
	return t.bundlesWait(ctx, c.Namespace, true)
}

// WorkspaceWaits reports whether a workspace is being deleted and has Bundles with
// deployments.
func (t *Workspaces) WorkspaceWaits(ctx context.Context, workspace string) (bool, error) {
	if t.waited(workspace) {
		return true, nil
	}
	ns, err := t.client.NamespaceLifetime(ctx, workspace)
	if err != nil || ns.Ending() == "" {
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

func (t *Workspaces) waited(workspace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Sub(t.waits[workspace]) < undecidedFor {
		return true
	}
	delete(t.waits, workspace)
	return false
}

// bundlesWait reports whether a workspace has Bundles whose finalizer the controller
// has not removed; deleted restricts that to those that are being deleted.
func (t *Workspaces) bundlesWait(ctx context.Context, workspace string, deleted bool) (bool, error) {
	list, err := t.client.ListMeta(ctx, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{Namespace: workspace})
	if kube.IsGone(err) {
		return false, nil // the kind is gone, and all Bundles with it
	}
	return slices.ContainsFunc(list, func(b *cache.Meta) bool {
		return slices.Contains(b.Finalizers, fleet.FinalizerBundle) && (!deleted || b.DeletionTimestamp != nil)
	}), err
}
