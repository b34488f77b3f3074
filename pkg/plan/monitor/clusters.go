package monitor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// unseenLimit is how long an agent may be away before its Cluster is a fault, if it is expected
// before that.
const unseenLimit = 24 * time.Hour

// readClusters indexes the Clusters.
func (j *judge) readClusters() {
	list := make([]*fleet.Cluster, len(j.in.Clusters))
	for i, c := range j.in.Clusters {
		list[i] = c.Cluster
		j.clusters[keyOf(c)] = c
	}
	if j.usual = heartbeat.Reported(list); j.usual == 0 {
		j.usual = heartbeat.Usual
	}
}

// cluster looks for the faults of a Cluster.
func (j *judge) cluster(c ClusterObject) {
	j.finalizers("Cluster", c)
	if c.DeletionTimestamp != nil {
		return
	}
	if issue := j.agentIssue(c); issue != "" {
		entry := newCluster(c, j.in.Now)
		entry.Issue = issue
		j.found.ClustersWithAgentIssues = append(j.found.ClustersWithAgentIssues, entry)
	}
}

// agentIssue returns why a Cluster counts as one with an agent that does not work; empty if it
// does, or is away by plan.
func (j *judge) agentIssue(c ClusterObject) string {
	policy := heartbeat.PolicyOf(c.Cluster, c.Protocol)
	away := j.in.Now.Sub(c.LastSeen)
	expected := away < policy.Deadline(j.usual)
	switch {
	case c.LastSeen.IsZero() && !j.in.isSettled(c):
		return ""
	case c.LastSeen.IsZero():
		return "its agent was never seen"
	case !expected && away > unseenLimit:
		return fmt.Sprintf("its agent was seen %s ago", away.Round(time.Second))
	}
	ready := condition.Find(c.Status.Conditions, fleet.ConditionReady)
	if ready == nil || ready.Status == corev1.ConditionTrue || j.isWaiting(c, policy.Scheduled && expected) {
		return ""
	}
	if at, err := time.Parse(time.RFC3339, ready.LastTransitionTime); err == nil && j.in.Now.Sub(at) < Grace {
		return ""
	}
	return shown("not Ready: " + ready.Message)
}

// isWaiting reports whether a Cluster that is not Ready waits for something that is no fault of its
// agent: a rollout, a pause, or the next visit of an agent with a schedule.
func (j *judge) isWaiting(c ClusterObject, byPlan bool) bool {
	switch fleet.BundleState(c.Status.Display.State) {
	case fleet.OutOfSync, fleet.Pending:
		return true
	case fleet.WaitApplied, fleet.Offline:
		return byPlan || c.Spec.Paused
	}
	return c.Spec.Paused
}

// group looks for the faults of a ClusterGroup.
func (j *judge) group(g *fleet.ClusterGroup) {
	if g.DeletionTimestamp != nil || g.Status.ClusterCount > 0 || g.Spec.Selector == nil || !j.in.isSettled(g) {
		return
	}
	entry := newGroup(g)
	entry.Issue = "its selector matches no Cluster"
	j.found.ClusterGroupsWithNoClusters = append(j.found.ClusterGroupsWithNoClusters, entry)
}
