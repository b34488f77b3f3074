package rollout

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TargetOf is a deployment, which may be nil, as the rollout sees it. What it
// should be, and whether anything holds it back, is not known from it.
func TargetOf(name string, bd *fleet.BundleDeployment) Target {
	if bd == nil {
		return Target{Name: name}
	}
	return Target{
		Name: name, Exists: true,
		Staged: bd.Spec.StagedDeploymentID, Current: bd.Spec.DeploymentID,
		Applied: bd.Status.AppliedDeploymentID, Ready: bd.Status.Ready,
	}
}
