package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/helmop"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// helmOpLink looks at the HelmOp that the Bundle was made from.
func (s *compiledSubject) helmOpLink(name string) linkState {
	key := s.Bundle.Namespace + "/" + name
	switch {
	case view.HeldDeletion(s.Bundle) != nil:
		return heldDeletion(s.Bundle)
	case s.HelmOp == nil && s.isForbidden(HelmOps):
		return s.hiddenLink(HelmOps).withEvidence("helmop", key)
	case s.HelmOp == nil:
		return stop(ReasonLeaving, fmt.Sprintf("helmop %s is gone; what it deployed is being removed", name)).withEvidence("helmop", key).
			hint("to see what is left", "fleet get deployments -n %s --bundle %s", s.Bundle.Namespace, s.Bundle.Name)
	}
	j := helmOpState(s.Subject)
	if j.Reason == fleet.EventPolicyViolation || j.Reason == policy.ReasonInvalid {
		spec := s.HelmOp.Spec
		limits := policy.Aggregate(nil, slices.DeleteFunc(slices.Clone(s.Policies), func(p *fleet.Policy) bool { return p.Namespace != s.HelmOp.Namespace }))
		limits.SetHelmOpDefaults(&spec)
		j = j.withRule(limits.HelmOpError(&spec))
	}
	return j
}

// helmOpState says what keeps the manager from finding the chart of a HelmOp, or which
// version it has found.
func helmOpState(s Subject) linkState {
	op := s.HelmOp
	list := op.Status.Conditions
	events := func(j linkState) linkState {
		return j.hint("to see what happens", "fleet events helmop/%s -n %s", op.Name, op.Namespace)
	}
	j := ok("HelmOp %s/%s%s", op.Namespace, op.Name, versionText(op))
	_, trouble := view.HelmOpTrouble(op)
	reconciling := condition.Find(list, fleet.ConditionReconciling)
	switch {
	case op.DeletionTimestamp != nil:
		j = stop(ReasonLeaving, fmt.Sprintf("helmop %s is being removed, with all that it deployed", op.Name)).withSince(op.DeletionTimestamp.Time)
	case trouble != nil:
		j = events(stop(trouble.Reason, trouble.Message).withSince(view.ChangedAt(list, trouble.Type)))
	case reconciling != nil && reconciling.Status == corev1.ConditionTrue && reconciling.Reason == fleet.ReasonSuspended:
		j = stop(reconciling.Reason, reconciling.Message).withSince(view.ChangedAt(list, reconciling.Type)).hint("to go on", "fleet resume --all")
	case reconciling != nil && reconciling.Status == corev1.ConditionTrue:
		j = events(wait(reconciling.Reason, reconciling.Message).withSince(view.ChangedAt(list, reconciling.Type)))
	case view.HelmOpBehind(op):
		j = events(wait("NotRead", "the manager has not worked on the HelmOp yet"))
	}
	return j.withEvidence("helmop", op.Namespace+"/"+op.Name).withEvidence("version", op.Status.Version)
}

// versionText says which version of its chart a HelmOp stands for, and how often the
// manager asks for a newer one; empty if that is not known.
func versionText(op *fleet.HelmOp) string {
	v := op.Status.Version
	if v == "" || op.Spec.Helm == nil {
		return ""
	}
	text := ", version " + v
	switch wanted := op.Spec.Helm.Version; {
	case wanted == "":
		text = ", the newest version is " + v
	case wanted != v:
		text = fmt.Sprintf(", %s is %s", wanted, v)
	}
	switch interval := helmop.Interval(&op.Spec); {
	case interval > 0:
		text += ", asked for every " + heartbeat.FormatInterval(interval)
	case helmop.IsConstraint(op.Spec.Helm):
		text += ", asked for when the spec changes"
	}
	return text
}

// WithoutBundle explains why a HelmOp has no Bundle. Only HelmOp, Now, Manager and Hidden of
// the Subject are looked at.
func WithoutBundle(s Subject) Survey {
	op := s.HelmOp
	out := Survey{Bundle: view.Key{Namespace: op.Namespace, Name: op.Name}, Hidden: s.Hidden, Answers: []Answer{}, withoutBundle: true}
	j := helmOpState(s)
	if !j.stops() {
		j = wait(ReasonNotWritten, "no bundle was made from the HelmOp yet").
			hint("to see what happens", "fleet events helmop/%s -n %s", op.Name, op.Namespace)
	}
	out.StoppedAt, out.Reason, out.Since, out.Hints, out.Message = Source, j.Reason, j.Since, j.hints, j.Text
	return out
}
