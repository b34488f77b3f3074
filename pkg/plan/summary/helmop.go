package summary

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// HelmOpStatus returns the status of a HelmOp: its summary part is new, the rest is taken
// over from the object. s holds the HelmOp's Bundle, if there is one, and its deployments.
// Ready is never True unless the HelmOp has a Bundle and its source has answered.
func HelmOpStatus(op *fleet.HelmOp, s Sources, now time.Time) fleet.HelmOpStatus {
	st := *op.Status.DeepCopy()
	fillBase(&st.StatusBase, s.Deployments)
	ready := Ready(ByBundle, &st.Summary, op.Generation)
	if problem := helmOpProblem(op, s); problem != nil {
		ready = NotReady(problem.Reason, problem.Message, op.Generation)
		if st.Summary.DesiredReady == 0 {
			st.Summary, st.Display.ReadyBundleDeployments = notDeployed(op.Name, problem), ratioText(0, 1)
			st.Display.State = DisplayState(&st.Summary)
		}
		if problem.Reason != ReasonNoBundles && problem.Reason != ReasonNotRead && st.Display.Message == "" {
			st.Display.Message = message(problem.Message)
		}
	} else if ready.Status == corev1.ConditionFalse {
		ready.Message = condition.Message(readyMessage(s))
	}
	st.Display.Error = st.Display.Message != ""
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = setUnrendered(st.Conditions, unrenderedOf(s.Bundles), op.Generation, now)
	return st
}

// notDeployed returns the summary of a HelmOp without deployments: one that is missing.
// Rancher copies it to its own conditions, and takes one in which Ready is DesiredReady for
// a success.
func notDeployed(name string, problem *Problem) fleet.BundleSummary {
	if problem.Reason == ReasonNotRead || problem.Reason == ReasonNoBundles {
		return fleet.BundleSummary{DesiredReady: 1, WaitApplied: 1}
	}
	return fleet.BundleSummary{
		DesiredReady: 1, ErrApplied: 1,
		NonReadyResources: []fleet.NonReadyResource{{Name: name, State: fleet.ErrApplied, Message: condition.Message(problem.Message)}},
	}
}

// helmOpProblem returns why a HelmOp cannot be Ready whatever its deployments say; nil for
// nothing.
func helmOpProblem(op *fleet.HelmOp, s Sources) *Problem {
	for _, bad := range []struct {
		kind   string
		status corev1.ConditionStatus
	}{
		{fleet.ConditionAccepted, corev1.ConditionFalse}, {fleet.ConditionStalled, corev1.ConditionTrue},
		{fleet.ConditionPolled, corev1.ConditionFalse}, {fleet.ConditionReconciling, corev1.ConditionTrue},
	} {
		c := condition.Find(op.Status.Conditions, bad.kind)
		if c != nil && c.Status == bad.status && c.Reason != fleet.ReasonSuspended {
			return &Problem{cmp.Or(c.Reason, fleet.ReasonError), c.Message}
		}
	}
	if c := condition.Find(op.Status.Conditions, fleet.ConditionAccepted); c == nil || c.ObservedGeneration != op.Generation {
		return &Problem{ReasonNotRead, "the changed spec was not looked at yet"}
	}
	if len(s.Bundles) == 0 {
		return &Problem{ReasonNoBundles, "no bundle was made from the chart yet"}
	}
	if p := s.Bundles[0].Problem; p != nil {
		return &Problem{p.Reason, fmt.Sprintf("bundle %s: %s", s.Bundles[0].Name, p.Message)}
	}
	return nil
}
