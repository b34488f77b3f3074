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
	silent bool      // it was confirmed that it has let SilentAfter pass
}

// An Overdue is a deployment whose cluster should have reported.
type Overdue struct {
	Cluster    kube.Key
	Deployment kube.Key
}

// Overdue returns the deployments of a Bundle that were promoted at least
// rollout.SilentAfter ago on clusters that have not reported since, by cluster. It also
// returns when to ask again; 0 means not before Changes name a promotion.
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

// SetSilent notes that a cluster that should have reported was looked up, and had
// indeed given no sign.
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

// ResetAck restarts the time limit of a cluster: while the API server was away no
// cluster could report.
func (t clusterTable) ResetAck(key kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.clusters[key]; row != nil && !row.pendingAck.since.IsZero() && !row.pendingAck.silent {
		row.pendingAck.since = t.now()
	}
}

// learned handles a newer version of a deployment. It shows that its cluster lives, or
// that the cluster was given something to do.
func (t *core) learned(c *placement, old *fleet.BundleDeployment, changed *Changes) {
	if old != nil && old.UID == c.bd.UID && !sameReport(&old.Status, &c.bd.Status) {
		t.heard(c.cluster, changed)
	}
	if !rollout.Unanswered(c.bd) || old != nil && sameTask(old, c.bd) {
		return
	}
	if row := t.clusters[c.cluster]; row != nil && row.pendingAck.since.IsZero() {
		row.pendingAck.since = t.now()
	}
	if b := t.bundle(c.bundle); b.due.IsZero() {
		b.due = t.now().Add(rollout.SilentAfter)
		changed.Promoted = append(changed.Promoted, c.bundle)
	}
}

// sameTask reports whether the manager asks for the same as before.
func sameTask(a, b *fleet.BundleDeployment) bool {
	return a.UID == b.UID && a.Spec.DeploymentID == b.Spec.DeploymentID && a.Spec.Paused == b.Spec.Paused && order(a) == order(b)
}

// sameReport reports whether an agent has written nothing between two versions of a
// status. Other agents have no right to write it. The manager writes the display, for
// agents of the reference; that is no sign of life.
func sameReport(a, b *fleet.BundleDeploymentStatus) bool {
	return a.AppliedDeploymentID == b.AppliedDeploymentID && a.Release == b.Release && a.Ready == b.Ready &&
		a.NonModified == b.NonModified && a.ResourceCounts == b.ResourceCounts &&
		len(a.NonReadyStatus) == len(b.NonReadyStatus) && len(a.ModifiedStatus) == len(b.ModifiedStatus) &&
		slices.Equal(a.Conditions, b.Conditions)
}

// heard records a report as a sign of life at the current time. An agent that has not
// checked in yet does not become online by it: too little is known of it.
func (t *core) heard(key kube.Key, changed *Changes) {
	row := t.clusters[key]
	if row == nil {
		return
	}
	t.settlePendingAck(row, key, changed)
	if row.life == summary.NeverSeen {
		return
	}
	away := t.away(row)
	row.alive = t.now()
	if row.life == summary.Online {
		return
	}
	row.life = summary.Online
	t.moves++
	changed.Revived = append(changed.Revived, Return{Cluster: key, Away: away})
	changed.add(Subject{KindCluster, key}, row.counts.final())
	t.touchGroups(key.Namespace, changed)
}

// settlePendingAck notes that a cluster has reported. Rollouts may wait for a formerly
// silent cluster again, and it may get what was withheld while it was silent.
func (t *core) settlePendingAck(row *clusterRow, key kube.Key, changed *Changes) {
	was := row.pendingAck.silent
	if row.pendingAck = (pendingAck{}); !was {
		return
	}
	t.moves++
	t.markClusterChanged(key, changed)
	for c := range t.onCluster[key] {
		changed.Plan = append(changed.Plan, c.bundle)
	}
}

// markClusterChanged notes that the part of a cluster in the rollouts of its Bundles
// has changed.
func (t *core) markClusterChanged(key kube.Key, changed *Changes) {
	for c := range t.onCluster[key] {
		b := t.bundle(c.bundle)
		b.changed++
		if b.plan != nil && b.plan.Waiting {
			changed.Plan = append(changed.Plan, c.bundle)
		}
		if c.want != nil {
			changed.add(Subject{KindBundle, c.bundle}, b.counts.final())
		}
	}
}

// expectAck begins the debt of a cluster that comes after its deployments: at the
// start, caches fill in any order.
func (t *core) expectAck(row *clusterRow, key kube.Key) {
	for c := range t.onCluster[key] {
		if rollout.Unanswered(c.bd) {
			row.pendingAck.since = t.now()
			return
		}
	}
}
