package summary

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// HelmOpRefused returns the status of a HelmOp that the manager does not act on: one
// deployment with an error, whose message says why. It replaces what another manager has
// written, because no manager maintains the deployments that this counted.
//
// Rancher copies Summary to its own conditions: it takes a summary in which Ready is
// DesiredReady for a success, and reads the first of NonReadyResources without a look at
// their number.
func HelmOpRefused(op *fleet.HelmOp, why string, now time.Time) fleet.HelmOpStatus {
	st := *op.Status.DeepCopy()
	why = condition.Message(why)
	st.StatusBase = fleet.StatusBase{
		Summary: fleet.BundleSummary{
			DesiredReady: 1, ErrApplied: 1,
			NonReadyResources: []fleet.NonReadyResource{{Name: op.Name, State: fleet.ErrApplied, Message: why}},
		},
		Display:    fleet.StatusDisplay{ReadyBundleDeployments: "0/1", State: string(fleet.ErrApplied), Message: why, Error: true},
		Conditions: st.Conditions,
	}
	for _, kind := range []string{fleet.ConditionAccepted, fleet.ConditionReady} {
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{
			Type: kind, Status: corev1.ConditionFalse, Reason: fleet.ReasonNotImplemented, Message: why, ObservedGeneration: op.Generation,
		}, now)
	}
	return st
}
