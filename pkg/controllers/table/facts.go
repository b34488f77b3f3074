package table

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// BundleFacts are a Bundle and what its status is made of. They are false
// while the Bundle, or at the start any Bundle, was not planned yet.
func (t *Table) BundleFacts(key kube.Key) (*fleet.Bundle, *summary.Bundle, *fleet.Condition, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	if !t.settled || row == nil || row.obj == nil || row.plan == nil {
		return nil, nil, nil, false
	}
	p := row.plan
	f := &summary.Bundle{Generation: row.complete, Shape: p.Shape, Problem: p.Problem, ResourcesDigest: p.ResourcesDigest}
	targets := make([]rollout.Target, 0, len(p.Order))
	for _, k := range p.Order {
		c := row.cells[k]
		view := c.view
		f.Deployments = append(f.Deployments, &view)
		targets = append(targets, t.target(c))
		if c.bd != nil && c.bd.Status.AppliedDeploymentID == "" {
			f.NewlyCreated++
		}
	}
	f.Rollout = rollout.Look(p.Shape, targets)
	for _, c := range row.cells {
		cl := t.clusters[c.cluster]
		if c.bd != nil && c.want == nil && cl != nil && cl.obj.DeletionTimestamp == nil {
			f.Withdrawing.Count++
		}
	}
	f.Withdrawing.Why = p.Withdrawing
	return row.obj, f, p.Accepted, true
}

// target is a cell as the rollout sees it.
func (t *Table) target(c *cell) rollout.Target {
	out := rollout.TargetOf(c.cluster.String(), c.bd)
	out.Desired, out.Paused = c.want.ID, c.want.Paused
	if cl := t.clusters[c.cluster]; cl != nil {
		out.Offline = cl.life == summary.Offline
	}
	return out
}

// Nowhere tells whether the last plan of a Bundle found no cluster for it.
func (t *Table) Nowhere(key kube.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	return row == nil || row.plan == nil || len(row.plan.Order) == 0
}

// Size is how many deployments a Bundle has or should have.
func (t *Table) Size(key kube.Key) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.bundles[key]; row != nil {
		return len(row.cells)
	}
	return 0
}
