package agents

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// stripAgentBundle keeps the state of a Bundle, and the digests of what it was made
// from.
func stripAgentBundle(b *fleet.Bundle) {
	cache.DropLastApplied(b)
	b.Spec = fleet.BundleSpec{}
	s := b.Status.Summary
	b.Status = fleet.BundleStatus{
		ObservedGeneration: b.Status.ObservedGeneration,
		Summary:            fleet.BundleSummary{Ready: s.Ready, DesiredReady: s.DesiredReady, NonReadyResources: s.NonReadyResources},
	}
}

// agentChanges reports whether a change of a Cluster affects its agent. Most heartbeats
// do not.
func agentChanges(old, changed *fleet.Cluster) bool {
	if old == nil || changed == nil {
		return true
	}
	a, b := old.Status, changed.Status
	return cache.ClusterChanged(old, changed) ||
		a.Agent.Version != b.Agent.Version || a.Agent.Instance != b.Agent.Instance || a.Agent.Namespace != b.Agent.Namespace ||
		a.Summary.Ready != b.Summary.Ready || a.Summary.DesiredReady != b.Summary.DesiredReady ||
		a.Scheduled != b.Scheduled || a.ActiveSchedule != b.ActiveSchedule ||
		connection(old) != connection(changed)
}

// connection returns the status of condition Connected.
func connection(c *fleet.Cluster) corev1.ConditionStatus {
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionConnected); cond != nil {
		return cond.Status
	}
	return corev1.ConditionUnknown
}
