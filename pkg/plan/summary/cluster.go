package summary

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// AgentLiveness says what is known of the agent of a cluster.
type AgentLiveness int

// Lives of an agent.
const (
	NeverSeen AgentLiveness = iota // it has not checked in yet
	Online                         // it checks in
	Offline                        // it missed its check-ins
)

// A ClusterView is the facts from which the summary part of a Cluster's status
// is made.
type ClusterView struct {
	Deployments []*Deployment
	Life        AgentLiveness
	// Absent says of an agent that is Offline what it did not do; empty: it missed 3
	// check-ins.
	Absent string
	// Withdrawing is how many deployments of this cluster wait to be
	// uninstalled.
	Withdrawing int
	// Scheduled reports that a Schedule selects the cluster, Active that one of its windows is
	// open.
	Scheduled, Active bool
}

// ClusterStatus returns the status of a Cluster: its summary part is new, the rest is taken
// over from the object. An Offline cluster keeps its last counts and the Ready of its last
// report, as in rancher/fleet. Connected and the display say that it is offline.
func ClusterStatus(c *fleet.Cluster, v ClusterView, now time.Time) fleet.ClusterStatus {
	st := *c.Status.DeepCopy()
	st.Scheduled, st.ActiveSchedule = v.Scheduled, v.Active
	list := slices.Clone(v.Deployments)
	slices.SortFunc(list, func(a, b *Deployment) int { return strings.Compare(a.Bundle, b.Bundle) })
	st.Summary = Count(ByBundle, list)
	st.ResourceCounts = fleet.ResourceCounts{}
	for _, d := range list {
		AddCounts(&st.ResourceCounts, d.Counts)
	}
	st.ReadyGitRepos, st.DesiredReadyGitRepos = countOwners(list, func(d *Deployment) string { return d.Repo })
	st.ReadyHelmOps, st.DesiredReadyHelmOps = countOwners(list, func(d *Deployment) string { return d.HelmOp })
	st.Display.ReadyBundles = ratioText(st.Summary.Ready, st.Summary.DesiredReady)
	st.Display.State = clusterState(v.Life, &st.Summary)
	ready := Ready(ByBundle, &st.Summary, c.Generation)
	if trouble := c.Status.Agent.Trouble; trouble != "" && v.Life == Online {
		st.Display.State = string(fleet.NotReady)
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, fleet.ReasonAgentTrouble, condition.Message(trouble)
	}
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = condition.Set(st.Conditions, connectedCondition(v, c.Generation), now)
	st.Conditions = setWithdrawing(st.Conditions, Withdrawing{Count: v.Withdrawing}, c.Generation, now)
	return st
}

// countOwners counts repositories: all, and those of which a deployment on this cluster is
// Ready, as Rancher Fleet v0.16 counts them.
func countOwners(list []*Deployment, owner func(*Deployment) string) (ready, all int) {
	good := map[string]bool{}
	for _, d := range list {
		name := owner(d)
		if name == "" {
			continue
		}
		good[name] = good[name] || d.State == fleet.Ready
	}
	for _, ok := range good {
		if ok {
			ready++
		}
	}
	return ready, len(good)
}

func clusterState(life AgentLiveness, s *fleet.BundleSummary) string {
	switch life {
	case NeverSeen:
		return fleet.WaitCheckIn
	case Offline:
		return fleet.Offline
	}
	return DisplayState(s)
}

func connectedCondition(v ClusterView, generation int64) fleet.Condition {
	c := fleet.Condition{Type: fleet.ConditionConnected, Status: corev1.ConditionFalse, ObservedGeneration: generation}
	switch v.Life {
	case NeverSeen:
		c.Reason, c.Message = fleet.ReasonNeverSeen, "the agent has not checked in yet"
	case Offline:
		c.Reason, c.Message = fleet.ReasonOffline, cmp.Or(v.Absent, "the agent missed 3 check-ins")
	default:
		c.Status, c.Reason = corev1.ConditionTrue, fleet.ReasonSucceeded
	}
	return c
}
