package fleetstate

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// BundleFacts returns a Bundle and what its status is made of. It returns false while
// the Bundle, or at the start any Bundle, was not planned yet by this manager.
func (t bundleTable) BundleFacts(key kube.Key) (*fleet.Bundle, *summary.Bundle, *fleet.Condition, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	if !t.settled || row == nil || row.obj == nil || row.plan == nil || row.plan.Foreign {
		return nil, nil, nil, false
	}
	p := row.plan
	f := &summary.Bundle{Generation: row.complete, Shape: p.Shape, Problem: p.Problem, ResourcesDigest: p.ResourcesDigest, Unrendered: p.Unrendered}
	seats := t.seats(row)
	views := make([]summary.Deployment, len(seats))
	f.Deployments = make([]*summary.Deployment, len(seats))
	if len(t.targets) < len(seats) {
		t.targets = make([]rollout.Target, len(seats))
	}
	targets := t.targets[:len(seats)]
	for i, s := range seats {
		views[i] = s.placement.view
		f.Deployments[i] = &views[i]
		targets[i] = s.target()
		if s.placement.bd != nil && s.placement.bd.Status.AppliedDeploymentID == "" {
			f.NewlyCreated++
		}
	}
	f.Rollout = rollout.Look(p.Shape, targets)
	for _, c := range row.cells {
		if c.bd == nil || c.want != nil {
			continue
		}
		if cl := t.clusters[c.cluster]; cl != nil && !withdrawal.Going(cl.obj) {
			f.Withdrawing.Count++
		}
	}
	f.Withdrawing.Why = p.Withdrawing
	return row.obj, f, p.Accepted, true
}

// A seat is a place in the order of a plan: a deployment, and its cluster, nil
// where that is gone.
type seat struct {
	placement *placement
	cluster   *clusterRow
}

// seats are those of the last plan of a Bundle. They stay the same until the next plan,
// since what is desired is not dropped, and as long as no cluster comes or goes.
func (t bundleTable) seats(row *bundleRow) []seat {
	if row.seatsOf != row.plan || row.seatsAt != t.moves {
		row.seats = make([]seat, len(row.plan.Order))
		for i, k := range row.plan.Order {
			row.seats[i] = seat{row.cells[k], t.clusters[k]}
		}
		row.seatsOf, row.seatsAt = row.plan, t.moves
	}
	return row.seats
}

// target is a deployment as the rollout sees it.
func (s seat) target() rollout.Target {
	out := rollout.TargetOf(s.placement.view.Cluster, s.placement.bd)
	out.Desired, out.Paused = s.placement.want.ID, s.placement.want.Paused
	if s.placement.want.Kept {
		out.Held = s.placement.want.Held
	}
	if s.cluster != nil {
		out.Offline, out.Silent = s.cluster.life == summary.Offline, s.cluster.pendingAck.silent
	}
	return out
}

// Nowhere reports whether the last plan of a Bundle found no cluster for it.
func (t bundleTable) Nowhere(key kube.Key) bool {
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
