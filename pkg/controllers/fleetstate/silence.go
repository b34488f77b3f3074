package fleetstate

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A pendingAck is an answer that a cluster owes: something was promoted there, and
// nothing was heard since. Which promotion it was does not matter, since any
// sign of life settles all of them.
//
// The times are ours, from when the table learned of a promotion. No object
// holds them, and none should: a manager that starts cannot tell for how long it
// was away, and with it perhaps the API server that agents talk to. So every
// debt begins anew with it.
type pendingAck struct {
	since  time.Time // zero: the cluster owes nothing
	silent bool      // it was confirmed that it has let SilentAfter pass
}

// An Overdue is a deployment whose cluster should have been heard of.
type Overdue struct {
	Cluster    kube.Key
	Deployment kube.Key
}

// Overdue are the deployments of a Bundle that were promoted at least
// rollout.SilentAfter ago on clusters that were not heard of since, by cluster.
// It also tells when to ask again; 0 means not before News tells of a promotion.
func (t *State) Overdue(bundle kube.Key) ([]Overdue, time.Duration) {
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

// SetSilent takes in that a cluster, which should have been heard of, was asked
// for and really gave no sign.
func (t *State) SetSilent(key kube.Key) Changes {
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

// ResetAck gives a cluster its time anew: while the API server was away nobody
// could be heard of.
func (t *State) ResetAck(key kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.clusters[key]; row != nil && !row.pendingAck.since.IsZero() && !row.pendingAck.silent {
		row.pendingAck.since = t.now()
	}
}

// learned takes in what a newer version of a deployment tells: that its cluster
// lives, or that it was given something to do.
func (t *State) learned(c *placement, old *fleet.BundleDeployment, changed *Changes) {
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

// sameTask reports whether the manager asks for nothing else than before.
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

// heard takes in a report as a sign of life, as of now. Of an agent that has not
// checked in yet too little is known to count it as online.
func (t *State) heard(key kube.Key, changed *Changes) {
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

// settlePendingAck notes that a cluster was heard of. One that was silent may now be
// waited for again, or take what it could not be given unseen.
func (t *State) settlePendingAck(row *clusterRow, key kube.Key, changed *Changes) {
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

// markClusterChanged notes that a cluster counts otherwise in the rollouts of its Bundles.
func (t *State) markClusterChanged(key kube.Key, changed *Changes) {
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
func (t *State) expectAck(row *clusterRow, key kube.Key) {
	for c := range t.onCluster[key] {
		if rollout.Unanswered(c.bd) {
			row.pendingAck.since = t.now()
			return
		}
	}
}
