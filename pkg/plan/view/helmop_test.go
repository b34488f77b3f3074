package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// helmOp is a HelmOp that the manager has worked on, at version 1.2.0 of its chart.
func helmOp(list ...fleet.Condition) *fleet.HelmOp {
	op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web", Generation: 2}}
	op.Status.Version = "1.2.0"
	op.Status.Conditions = append([]fleet.Condition{{Type: fleet.ConditionAccepted, Status: corev1.ConditionTrue, ObservedGeneration: 2}}, list...)
	for i := range op.Status.Conditions {
		op.Status.Conditions[i].ObservedGeneration = 2
	}
	return op
}

func said(kind string, status corev1.ConditionStatus, reason, message string) fleet.Condition {
	return fleet.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func TestHelmOpState(t *testing.T) {
	ready := said(fleet.ConditionReady, corev1.ConditionTrue, "", "")
	behind := helmOp(ready)
	behind.Generation++
	for name, c := range map[string]struct {
		op      *fleet.HelmOp
		state   fleet.BundleState
		message string
	}{
		"New":        {&fleet.HelmOp{}, fleet.Pending, notWorkedOn},
		"Ready":      {helmOp(ready), fleet.Ready, ""},
		"Behind":     {behind, fleet.OutOfSync, notWorkedOn},
		"Polled":     {helmOp(ready, said(fleet.ConditionPolled, corev1.ConditionFalse, "Unreachable", "away")), Unreadable, "away"},
		"Stalled":    {helmOp(said(fleet.ConditionStalled, corev1.ConditionTrue, "NotFound", "no chart")), Unreadable, "no chart"},
		"Policy":     {helmOp(said(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonRestricted, "limited")), fleet.NotReady, "limited"},
		"Restricted": {restricted(), Held, "limited"},
	} {
		t.Run(name, func(t *testing.T) {
			if state, message := HelmOpState(c.op), HelmOpMessage(c.op); state != c.state || message != c.message {
				t.Errorf("want %s %q, got %s %q", c.state, c.message, state, message)
			}
		})
	}
}

func restricted() *fleet.HelmOp {
	op := helmOp()
	op.Status.Conditions[0] = fleet.Condition{
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, Reason: fleet.ReasonRestricted, Message: "limited", ObservedGeneration: 2,
	}
	return op
}

// A wait for a HelmOp ends when its Bundle has the version that the HelmOp stands for, and
// is Ready with it.
func TestEvaluateHelmOp(t *testing.T) {
	goal := Goal{Kind: "HelmOp", Key: Key{Namespace: space, Name: "web"}}
	at := func(version string) *fleet.Bundle {
		return bundle("web", on(0), func(b *fleet.Bundle) {
			b.Labels = map[string]string{fleet.LabelHelmOpName: "web"}
			b.Spec.Helm = &fleet.HelmOptions{Version: version}
		})
	}
	unpolled := func(reason, message string) *fleet.HelmOp {
		return helmOp(said(fleet.ConditionPolled, corev1.ConditionFalse, reason, message))
	}
	never := unpolled("NotFound", "no such chart")
	never.Status.Version = ""
	leaving := helmOp()
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	behind := helmOp()
	behind.Generation++
	for name, c := range map[string]struct {
		why    string
		op     *fleet.HelmOp
		bundle *fleet.Bundle
		want   Verdict
	}{
		"Reached":    {"the Bundle has the version", helmOp(), at("1.2.0"), Verdict{End: Reached}},
		"Gone":       {"nothing makes it", nil, nil, Verdict{End: Failed, Faults: []string{"helmop web is gone"}}},
		"Leaving":    {"it does not become Ready", leaving, at("1.2.0"), Verdict{End: Failed, Faults: []string{"helmop web is being removed"}}},
		"Behind":     {"its spec was changed", behind, at("1.2.0"), Verdict{End: Waiting, Waits: []string{"helmop web was not worked on yet"}}},
		"Older":      {"the Bundle is the one before", helmOp(), at("1.1.0"), Verdict{End: Waiting, Waits: []string{"bundle web is not at version 1.2.0 yet"}}},
		"NoBundle":   {"it comes", helmOp(), nil, Verdict{End: Waiting, Waits: []string{"no bundle was made from helmop web yet"}}},
		"OtherOwner": {"the Bundle is not its own", helmOp(), bundle("web"), Verdict{End: Waiting, Waits: []string{"no bundle was made from helmop web yet"}}},
		"Refused":    {"a user has to change it", restricted(), nil, Verdict{End: Failed, Faults: []string{"helmop web: limited"}}},
		"Away": {"the source may come back", unpolled("Unreachable", "away"), at("1.2.0"),
			Verdict{End: Waiting, Trouble: "the chart of helmop web cannot be read: away"}},
		"NeverFound": {"the spec may be wrong", never, nil, Verdict{End: Failed, Faults: []string{"the chart of helmop web cannot be read: no such chart"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := Fleet{}
			if c.op != nil {
				f.HelmOps = append(f.HelmOps, c.op)
			}
			if c.bundle != nil {
				f.Bundles = append(f.Bundles, c.bundle)
			}
			v := Evaluate(goal, f)
			got := Verdict{End: v.End, Faults: v.Faults, Waits: v.Waits, Trouble: v.Trouble}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
