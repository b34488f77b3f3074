package fleetstate

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A pendingAck is an answer that a cluster owes: a version was promoted there, and the
// cluster has not reported since. It does not matter which promotion that was: any sign
// of life settles all of them.
//
// The times are those of the manager's clock, from when the table learned of a
// promotion. No object holds them, and none should: a manager that starts does not know
// how long it was away, and perhaps with it the API server that agents use. So at the
// start every debt begins again.
type pendingAck struct {
	since  time.Time // zero: the cluster owes nothing
	silent bool      // the cluster is confirmed to be silent
}

// An Overdue is a deployment whose cluster should have reported.
type Overdue struct {
	Cluster    kube.Key
	Deployment kube.Key
}

// Overdue returns the deployments of a Bundle that were promoted at least
// rollout.SilentAfter ago on clusters that have not reported since. It also returns
// when to call it again; 0: when Changes.Promoted has the Bundle.
func (t clusterTable) Overdue(bundle kube.Key) ([]Overdue, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[bundle]
	if row == nil || row.due.IsZero() {
		return nil, 0
	}
	now := t.now()
	if left := row.due.Sub(now); left > 0 {
		return nil, left
	}
	var late []Overdue
	next := time.Time{}
	for _, c := range row.cells {
		cl := t.clusters[c.cluster]
		if cl == nil || cl.pendingAck.since.IsZero() || cl.pendingAck.silent || cl.life == summary.Offline || !rollout.Unanswered(c.bd) {
			continue
		}
		due := cl.pendingAck.since.Add(rollout.SilentAfter)
		switch {
		case !due.After(now):
			late = append(late, Overdue{Cluster: c.cluster, Deployment: kube.KeyOf(c.bd)})
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	if len(late) > 0 {
		next = now // until they are confirmed or excused
		slices.SortFunc(late, func(a, b Overdue) int { return CompareKeys(a.Cluster, b.Cluster) })
	}
	if row.due = next; next.IsZero() {
		return nil, 0
	}
	return late, next.Sub(now)
}

// SetSilent makes a cluster silent. The caller has confirmed at the API server that the
// cluster has not reported.
func (t clusterTable) SetSilent(key kube.Key) Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed Changes
	row := t.clusters[key]
	if row == nil || row.pendingAck.silent || row.pendingAck.since.IsZero() || t.now().Sub(row.pendingAck.since) < rollout.SilentAfter {
		return changed
	}
	row.pendingAck.silent = true
	t.moves++
	t.markClusterChanged(key, &changed)
	return changed
}

// ResetAck restarts the deadline for the report of a cluster: while the API server was
// unreachable no cluster could report.
func (t clusterTable) ResetAck(key kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.clusters[key]; row != nil && !row.pendingAck.since.IsZero() && !row.pendingAck.silent {
		row.pendingAck.since = t.now()
	}
}

// onNewVersion handles a newer version of a deployment: either its agent has reported,
// or the manager expects a report from now on.
func (cr *core) onNewVersion(c *placement, old *fleet.BundleDeployment, changed *Changes) {
	if old != nil && old.UID == c.bd.UID && !sameReport(&old.Status, &c.bd.Status) {
		cr.recordReport(c.cluster, changed)
	}
	if !rollout.Unanswered(c.bd) || old != nil && sameSpec(old, c.bd) {
		return
	}
	if row := cr.clusters[c.cluster]; row != nil && row.pendingAck.since.IsZero() {
		row.pendingAck.since = cr.now()
	}
	if b := cr.bundleRowOf(c.bundle); b.due.IsZero() {
		b.due = cr.now().Add(rollout.SilentAfter)
		changed.Promoted = append(changed.Promoted, c.bundle)
	}
}

// sameSpec reports whether the manager asks an agent for the same as before.
func sameSpec(a, b *fleet.BundleDeployment) bool {
	return a.UID == b.UID && a.Spec.DeploymentID == b.Spec.DeploymentID && a.Spec.Paused == b.Spec.Paused && orderOf(a) == orderOf(b)
}

// sameReport reports whether the agent has written nothing between two versions of a
// status. Only agents may write it, except status.display: the manager writes that for
// agents of rancher/fleet, so that it is no report.
func sameReport(a, b *fleet.BundleDeploymentStatus) bool {
	return a.AppliedDeploymentID == b.AppliedDeploymentID && a.Release == b.Release && a.Ready == b.Ready &&
		a.NonModified == b.NonModified && a.ResourceCounts == b.ResourceCounts &&
		len(a.NonReadyStatus) == len(b.NonReadyStatus) && len(a.ModifiedStatus) == len(b.ModifiedStatus) &&
		slices.Equal(a.Conditions, b.Conditions)
}

// recordReport records a report of an agent at the current time. It does not make a
// cluster online whose agent has not checked in yet.
func (cr *core) recordReport(key kube.Key, changed *Changes) {
	row := cr.clusters[key]
	if row == nil {
		return
	}
	cr.settlePendingAck(row, key, changed)
	if row.life == summary.NeverSeen {
		return
	}
	away := cr.offlineFor(row)
	row.lastAlive = cr.now()
	if row.life == summary.Online {
		return
	}
	row.life = summary.Online
	cr.moves++
	changed.BackOnline = append(changed.BackOnline, Return{Cluster: key, Away: away})
	changed.add(Subject{KindCluster, key}, row.counts.final())
	cr.touchGroups(key.Namespace, changed)
}

// settlePendingAck records that a cluster has reported. A cluster that was silent takes
// part in rollouts again.
func (cr *core) settlePendingAck(row *clusterRow, key kube.Key, changed *Changes) {
	was := row.pendingAck.silent
	if row.pendingAck = (pendingAck{}); !was {
		return
	}
	cr.moves++
	cr.markClusterChanged(key, changed)
	for c := range cr.onCluster[key] {
		changed.Plan = append(changed.Plan, c.bundle)
	}
}

// markClusterChanged enqueues the Bundles of a cluster whose rollout may continue
// because the cluster has changed.
func (cr *core) markClusterChanged(key kube.Key, changed *Changes) {
	for c := range cr.onCluster[key] {
		b := cr.bundleRowOf(c.bundle)
		b.changed++
		if b.plan != nil && b.plan.Waiting {
			changed.Plan = append(changed.Plan, c.bundle)
		}
		if c.want != nil {
			changed.add(Subject{KindBundle, c.bundle}, b.counts.final())
		}
	}
}

// expectAck makes the manager expect a report of a cluster for deployments that are in
// the table before the Cluster: at the start, caches sync in any order.
func (cr *core) expectAck(row *clusterRow, key kube.Key) {
	for c := range cr.onCluster[key] {
		if rollout.Unanswered(c.bd) {
			row.pendingAck.since = cr.now()
			return
		}
	}
}
