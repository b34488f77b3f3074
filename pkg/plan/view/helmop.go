package view

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// HelmOpState returns the worst state of what a HelmOp deploys. One whose chart or version
// cannot be found is Unreadable; one that a Policy holds back is Held, unless what it has
// deployed is Ready or worse. One on which no manager has worked yet is Pending; one that was
// Ready and was changed since is OutOfSync.
func HelmOpState(op *fleet.HelmOp) fleet.BundleState {
	state := displayed(op.Status.Display.State, op.Status.Conditions, fleet.Pending)
	trouble, c := HelmOpTrouble(op)
	if trouble == Unreadable || c != nil && state != fleet.Ready && op.Status.Display.State == "" {
		return trouble
	}
	if state == fleet.Ready && HelmOpBehind(op) {
		return fleet.OutOfSync
	}
	return state
}

// HelmOpTrouble returns why a HelmOp needs a person, as Unreadable or Held and the condition
// that says so; nil where it needs none.
func HelmOpTrouble(op *fleet.HelmOp) (fleet.BundleState, *fleet.Condition) {
	return sourceTrouble(op.Status.Conditions, fleet.ConditionPolled)
}

// HelmOpBehind reports whether a HelmOp is new, or was changed since the manager worked on
// it. Rancher Fleet does not say which generation it has worked on.
func HelmOpBehind(op *fleet.HelmOp) bool {
	c := condition.Find(op.Status.Conditions, fleet.ConditionAccepted)
	return c == nil || !isCurrent(c, op.Generation)
}

// HelmOpMessage says what keeps a HelmOp from being Ready: first what keeps its chart from
// being found. It is empty where it is Ready.
func HelmOpMessage(op *fleet.HelmOp) string {
	if _, c := HelmOpTrouble(op); c != nil {
		return c.Message
	}
	if HelmOpState(op) == fleet.Ready {
		return unrendered(op.Status.Conditions)
	}
	if op.Status.Display.Message != "" {
		return dependency.PlainMessage(op.Status.Display.Message)
	}
	if HelmOpBehind(op) {
		return notWorkedOn
	}
	if c := condition.Find(op.Status.Conditions, fleet.ConditionReady); c != nil && c.Status != corev1.ConditionTrue {
		return summary.Readable(c.Message)
	}
	return ""
}

// helmOp looks at what keeps a HelmOp from giving its Bundle a version. The Bundle shows how
// far the removal of a HelmOp is.
func (ac *attentionCollector) helmOp(op *fleet.HelmOp) {
	self := owner{"HelmOp", keyOf(op)}
	state, c := HelmOpTrouble(op)
	switch {
	case op.DeletionTimestamp != nil && len(ac.bundles[self]) > 0:
	case op.DeletionTimestamp != nil:
		ac.addHelmOpMoving(op, "being removed")
	case c != nil:
		ac.heldOwners[self], ac.reported[self] = state == Held, true
		ac.list = append(ac.list, Attention{
			State: state, Kind: "HelmOp", Name: self.key.String(),
			Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
		})
	case HelmOpBehind(op):
		ac.addHelmOpMoving(op, notWorkedOn)
	default:
		ac.reconcilingHelmOp(op)
	}
}

// reconcilingHelmOp looks at a HelmOp that needs no person for its source: the manager may
// try again to find its version. While the fleet is suspended, every HelmOp waits; the
// suspension has a line of its own.
func (ac *attentionCollector) reconcilingHelmOp(op *fleet.HelmOp) {
	switch c := condition.Find(op.Status.Conditions, fleet.ConditionReconciling); {
	case c == nil || c.Status != corev1.ConditionTrue:
		ac.unchangedOps = append(ac.unchangedOps, op)
	case c.Reason != fleet.ReasonSuspended:
		ac.addHelmOpMoving(op, c.Message)
	}
}

// helmOpsLeft looks at HelmOps that have a version and are not Ready for a reason that
// their Bundle has not reported. The manager needs a moment to make the Bundle.
func (ac *attentionCollector) helmOpsLeft() {
	for _, op := range ac.unchangedOps {
		c := readyProblem(op.Status.Conditions)
		switch {
		case c == nil || ac.reported[owner{"HelmOp", keyOf(op)}]:
		case ac.now.Sub(changedAt(c)) < unreadyGrace:
			ac.addHelmOpMoving(op, c.Message)
		default:
			ac.list = append(ac.list, Attention{
				State: fleet.NotReady, Kind: "HelmOp", Name: keyOf(op).String(),
				Reason: c.Reason, Since: utcPointer(changedAt(c)), Message: c.Message,
			})
		}
	}
}

// addHelmOpMoving adds a HelmOp to what moves.
func (ac *attentionCollector) addHelmOpMoving(op *fleet.HelmOp, why string) {
	key := keyOf(op)
	ac.reported[owner{"HelmOp", key}] = true
	ac.moving = append(ac.moving, Moving{
		Kind: "HelmOp", Name: key.String(), Reason: cmp.Or(ac.fleet.Unmanaged(op), why),
		Ready: op.Status.ReadyClusters, Desired: op.Status.DesiredReadyClusters,
	})
}

// evaluateHelmOp judges the Bundle of a HelmOp, once it has the version that the HelmOp
// stands for.
func (e *evaluator) evaluateHelmOp() {
	op := e.helmOps[e.goal.Key]
	switch {
	case op == nil:
		e.addFault("helmop %s is gone", e.goal.Key.Name)
		return
	case op.DeletionTimestamp != nil:
		e.addFault("helmop %s is being removed", op.Name)
		return
	}
	e.checkHelmOp(op)
	b := e.bundles[e.goal.Key]
	if b == nil || b.Labels[fleet.LabelHelmOpName] != op.Name {
		if len(e.verdict.Faults)+len(e.verdict.Waits) == 0 && e.verdict.Trouble == "" {
			e.addWait("no bundle was made from helmop %s yet", op.Name)
		}
		return
	}
	e.verdict.Bundles = 1
	if v := op.Status.Version; b.Spec.Helm != nil && b.Spec.Helm.Version != v {
		e.addWait("bundle %s is not at version %s yet", b.Name, v)
	}
	e.verdict.Warnings = BundleWarnings(b)
	e.evaluateBundle(b, false)
}

// checkHelmOp judges whether the manager has found the version that a HelmOp asks for. What
// a person has to change is a fault. What may pass by itself is waited for, where the
// chart was found before: where it never was, only a host that is away is waited for.
func (e *evaluator) checkHelmOp(op *fleet.HelmOp) {
	list := op.Status.Conditions
	_, trouble := HelmOpTrouble(op)
	reconciling := condition.Find(list, fleet.ConditionReconciling)
	switch {
	case trouble != nil && isCurrent(trouble, op.Generation) && trouble.Type != fleet.ConditionPolled:
		e.addFault("helmop %s: %s", op.Name, trouble.Message)
	case trouble != nil && isCurrent(trouble, op.Generation) && op.Status.Version == "" && !hostAway(trouble):
		e.addFault("the chart of helmop %s cannot be read: %s", op.Name, trouble.Message)
	case trouble != nil && isCurrent(trouble, op.Generation):
		e.verdict.Trouble = "the chart of helmop " + op.Name + " cannot be read: " + trouble.Message
	case reconciling != nil && reconciling.Status == corev1.ConditionTrue && isCurrent(reconciling, op.Generation):
		e.addWait("helmop %s: %s", op.Name, reconciling.Message)
	case HelmOpBehind(op):
		e.addWait("helmop %s was not worked on yet", op.Name)
	default:
		e.verdict.Seen = true
	}
}
