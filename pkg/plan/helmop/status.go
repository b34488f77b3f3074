package helmop

import (
	"cmp"
	"time"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Facts are what the manager knows of a HelmOp.
type Facts struct {
	Op *fleet.HelmOp
	// Refused is why the spec, its Secret or a limit of the namespace forbids everything.
	Refused error
	// Suspended says why nothing is written at the moment; empty: it is not suspended.
	Suspended string
	// Version is the version that the wanted one stands for; empty if it is not known.
	Version string
	// Asked reports that the chart's source was asked for a version.
	Asked bool
	// Err is why the source gave no version, or why the Bundle was not written.
	Err error
}

// Known returns the version that a HelmOp's constraint stood for when the same spec was
// looked at before. ok is false if it must be asked for. live is the HelmOp's Bundle, if
// there is one: Rancher Fleet writes no generation into conditions, so what it has written
// counts if its Bundle has the version and the version still satisfies the spec.
func Known(op *fleet.HelmOp, live *fleet.Bundle) (version string, ok bool) {
	c := condition.Find(op.Status.Conditions, fleet.ConditionAccepted)
	if op.Status.Version == "" || c == nil || c.Status != corev1.ConditionTrue {
		return "", false
	}
	return op.Status.Version, c.ObservedGeneration == op.Generation || c.ObservedGeneration == 0 && isDeployed(op, live)
}

// isDeployed reports whether a Bundle has the chart of a HelmOp in the version of its
// status, which satisfies the spec.
func isDeployed(op *fleet.HelmOp, live *fleet.Bundle) bool {
	want := op.Spec.Helm
	if live == nil || live.Spec.Helm == nil || want == nil {
		return false
	}
	have := live.Spec.Helm
	if have.Repo != want.Repo || have.Chart != want.Chart || have.Version != op.Status.Version {
		return false
	}
	constraint, err := semver.NewConstraint(cmp.Or(want.Version, "*"))
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(have.Version)
	return err == nil && constraint.Check(v)
}

// Status returns the status of a HelmOp: the version and the conditions Accepted, Polled,
// Stalled and Reconciling. All else is as it was. Times move only with what they belong to,
// so that the same facts give the same status.
func Status(f Facts, now time.Time) fleet.HelmOpStatus {
	s := *f.Op.Status.DeepCopy()
	set := func(kind string, c fleet.Condition) {
		c.Type, c.ObservedGeneration, c.Message = kind, f.Op.Generation, condition.Message(c.Message)
		s.Conditions = condition.Set(s.Conditions, c, now)
	}
	if f.Refused != nil {
		set(fleet.ConditionAccepted, falseCondition(reconcile.ReasonOf(f.Refused), f.Refused.Error()))
		setProgress(set, f.Refused)
		return s
	}
	if f.Suspended != "" {
		setProgress(set, reconcile.RequeueError(fleet.ReasonSuspended, 0, suspendedError(f.Suspended)))
		return s
	}
	if f.Err == nil {
		set(fleet.ConditionAccepted, fleet.Condition{Status: corev1.ConditionTrue})
		if s.Version != f.Version && f.Asked {
			s.LastPollingTime = metav1.Time{Time: now}
		}
		s.Version = f.Version
	}
	switch {
	case Interval(&f.Op.Spec) == 0:
		s.Conditions = condition.Remove(s.Conditions, fleet.ConditionPolled)
	case f.Asked && f.Err != nil:
		if !condition.IsFalse(s.Conditions, fleet.ConditionPolled) {
			s.LastPollingTime = metav1.Time{Time: now}
		}
		set(fleet.ConditionPolled, falseCondition(reconcile.ReasonOf(f.Err), f.Err.Error()))
	case f.Asked:
		set(fleet.ConditionPolled, fleet.Condition{Status: corev1.ConditionTrue})
	}
	setProgress(set, f.Err)
	return s
}

// suspendedError is a suspension as an error.
type suspendedError string

func (e suspendedError) Error() string { return string(e) }

// setProgress sets Stalled for an error that needs a person, and Reconciling for one that
// may pass; without an error neither is True.
func setProgress(set func(string, fleet.Condition), err error) {
	stalled, reconciling := falseCondition("", ""), falseCondition("", "")
	switch {
	case err == nil:
	case reconcile.IsTerminal(err) || reconcile.ReasonOf(err) == reconcile.ReasonLocal:
		stalled = fleet.Condition{Status: corev1.ConditionTrue, Reason: reconcile.ReasonOf(err), Message: err.Error()}
		reconciling.Reason = reconcile.ReasonOf(err)
	default:
		reconciling = fleet.Condition{Status: corev1.ConditionTrue, Reason: reconcile.ReasonOf(err), Message: err.Error()}
		stalled.Reason = fleet.ReasonProgressing
	}
	set(fleet.ConditionStalled, stalled)
	set(fleet.ConditionReconciling, reconciling)
}

func falseCondition(reason, message string) fleet.Condition {
	return fleet.Condition{Status: corev1.ConditionFalse, Reason: reason, Message: message}
}
