package fleetstate

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// BundleFacts returns a Bundle, the input of its status, and its condition Accepted. It
// returns false until this manager has planned the Bundle, and every other Bundle once.
func (t bundleTable) BundleFacts(key kube.Key) (*fleet.Bundle, *summary.Bundle, *fleet.Condition, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	if !t.settled || row == nil || row.obj == nil || row.plan == nil || row.plan.Foreign {
		return nil, nil, nil, false
	}
	p := row.plan
	f := &summary.Bundle{Generation: row.complete, Shape: p.Shape, Problem: p.Problem, ResourcesDigest: p.ResourcesDigest, Unrendered: p.Unrendered}
	seats := t.plannedDeployments(row)
	views := make([]summary.Deployment, len(seats))
	f.Deployments = make([]*summary.Deployment, len(seats))
	if len(t.targets) < len(seats) {
		t.targets = make([]rollout.Target, len(seats))
	}
	targets, now := t.targets[:len(seats)], t.now()
	for i, s := range seats {
		views[i] = s.placement.view
		f.Deployments[i] = &views[i]
		targets[i] = s.rolloutTarget(now)
		if s.placement.bd != nil && s.placement.bd.Status.AppliedDeploymentID == "" {
			f.NewlyCreated++
		}
	}
	f.Rollout = rollout.Count(p.Shape, targets)
	for _, c := range row.cells {
		if c.bd == nil || c.want != nil {
			continue
		}
		if cl := t.clusters[c.cluster]; cl != nil && !withdrawal.IsDeleting(cl.obj) {
			f.Withdrawing.Count++
		}
	}
	f.Withdrawing.Why = p.Withdrawing
	return row.obj, f, p.Accepted, true
}

// A plannedDeployment is an entry of a plan: the placement, and its cluster; nil if the
// Cluster does not exist any more.
type plannedDeployment struct {
	placement *placement
	cluster   *clusterRow
}

// plannedDeployments returns the entries of the last plan of a Bundle. It caches them
// until the next plan, or until a cluster is created, deleted or changed.
func (t bundleTable) plannedDeployments(row *bundleRow) []plannedDeployment {
	if row.entriesOf != row.plan || row.entriesAt != t.moves {
		row.entries = make([]plannedDeployment, len(row.plan.Order))
		for i, k := range row.plan.Order {
			row.entries[i] = plannedDeployment{row.cells[k], t.clusters[k]}
		}
		row.entriesOf, row.entriesAt = row.plan, t.moves
	}
	return row.entries
}

// rolloutTarget returns the deployment as input of package rollout.
func (p plannedDeployment) rolloutTarget(now time.Time) rollout.Target {
	out := rollout.TargetOf(p.placement.view.Cluster, p.placement.bd)
	out.Desired, out.Paused = p.placement.want.ID, p.placement.want.Paused
	if p.placement.want.Kept {
		out.Held = p.placement.want.Held
	}
	if p.cluster != nil {
		out.Closed = deployment.AtOverride(p.cluster.place, p.placement.bd, now).Closed
		out.Offline, out.Silent = p.cluster.life == summary.Offline, p.cluster.pendingAck.silent
	}
	return out
}

// HasNoClusters reports whether the last plan of a Bundle found no cluster.
func (t bundleTable) HasNoClusters(key kube.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	return row == nil || row.plan == nil || len(row.plan.Order) == 0
}

// Size returns how many deployments a Bundle has or should have.
func (t bundleTable) Size(key kube.Key) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.bundles[key]; row != nil {
		return len(row.cells)
	}
	return 0
}
