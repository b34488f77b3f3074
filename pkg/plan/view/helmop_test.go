package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
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
		"Policy":     {helmOp(said(fleet.ConditionReady, corev1.ConditionFalse, fleet.EventPolicyViolation, "limited")), fleet.NotReady, "limited"},
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
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, Reason: fleet.EventPolicyViolation, Message: "limited", ObservedGeneration: 2,
	}
	return op
}

// What of a HelmOp needs a person has a row, once: of the HelmOp for its source, of its
// Bundle for what is deployed.
func TestSummarizeHelmOps(t *testing.T) {
	named := func(op *fleet.HelmOp, change ...func(*fleet.HelmOp)) Fleet {
		op.Namespace, op.Name = space, "web"
		for _, f := range change {
			f(op)
		}
		return Fleet{HelmOps: []*fleet.HelmOp{op}}
	}
	with := func(f Fleet, change ...func(*fleet.Bundle)) Fleet {
		b := bundle("web", change...)
		b.Labels = map[string]string{fleet.LabelHelmOpName: "web"}
		f.Bundles = append(f.Bundles, b)
		return f
	}
	unready := func(since time.Duration) fleet.Condition {
		return cond(fleet.ConditionReady, corev1.ConditionFalse, summary.ReasonNoBundles, "no bundle", since)
	}
	limited := func(b *fleet.Bundle) {
		b.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.EventPolicyViolation, "limited", time.Hour)}
	}
	deleted := func(op *fleet.HelmOp) { op.DeletionTimestamp = &metav1.Time{Time: now} }
	failing := on(1, bad("a", fleet.ErrApplied, "boom"))
	for name, c := range map[string]struct {
		why       string
		fleet     Fleet
		attention []string
		moving    []string
	}{
		"Ready":      {why: "all is well", fleet: with(named(helmOp(said(fleet.ConditionReady, corev1.ConditionTrue, "", ""))))},
		"Unreadable": {why: "the source does not answer", fleet: with(named(helmOp(said(fleet.ConditionPolled, corev1.ConditionFalse, "Unreachable", "away"), unready(time.Hour)))), attention: []string{"Unreadable HelmOp shops/web [Unreachable] away on "}},
		"Held":       {why: "the Bundle says the same", fleet: with(named(restricted()), limited), attention: []string{"Held HelmOp shops/web [PolicyViolation] limited on "}},
		"HeldRepo": {why: "a GitRepo of that name is another owner", fleet: with(Fleet{Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
			r.Name, r.Status.Conditions = "web", []fleet.Condition{cond(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.EventPolicyViolation, "limited", time.Hour)}
		})}}, limited), attention: []string{"Held GitRepo shops/web [PolicyViolation] limited on ", "Held Bundle shops/web [PolicyViolation] limited on "}},
		"New":         {why: "the manager comes to it", fleet: named(&fleet.HelmOp{}), moving: []string{"HelmOp shops/web 0/0 the manager has not worked on it yet"}},
		"Retries":     {why: "the source may answer later", fleet: named(helmOp(said(fleet.ConditionReconciling, corev1.ConditionTrue, "Unreachable", "away"))), moving: []string{"HelmOp shops/web 0/0 away"}},
		"Suspended":   {why: "the suspension of the fleet is said once", fleet: named(helmOp(said(fleet.ConditionReconciling, corev1.ConditionTrue, fleet.ReasonSuspended, "suspended"), unready(time.Hour)))},
		"Deleted":     {why: "its Bundle is gone, or never was", fleet: named(&fleet.HelmOp{}, deleted), moving: []string{"HelmOp shops/web 0/0 being removed"}},
		"Leaves":      {why: "its Bundle shows how far that is", fleet: with(named(&fleet.HelmOp{}, deleted), func(b *fleet.Bundle) { b.DeletionTimestamp = &metav1.Time{Time: now} }), moving: []string{"Bundle shops/web 0/0 being removed"}},
		"NoBundle":    {why: "something has removed its Bundle", fleet: named(helmOp(unready(time.Hour))), attention: []string{"NotReady HelmOp shops/web [NoBundles] no bundle on "}},
		"NoBundleYet": {why: "the manager needs a moment", fleet: named(helmOp(unready(time.Second))), moving: []string{"HelmOp shops/web 0/0 no bundle"}},
		"Fails":       {why: "the Bundle has the row", fleet: with(named(helmOp(unready(time.Hour))), failing), attention: []string{"ErrApplied Bundle shops/web [ErrApplied] boom on a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Summarize(c.fleet, Manager{}, now)
			var attention, moving []string
			for _, a := range got.Attention {
				attention = append(attention, row(a))
			}
			for _, m := range got.Moving {
				moving = append(moving, moved(m))
			}
			if diff := cmp.Diff(c.attention, attention); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.moving, moving); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if got.HelmOps.Total != len(c.fleet.HelmOps) {
				t.Errorf("counted %d helmops", got.HelmOps.Total)
			}
		})
	}
}

// The Bundle of a HelmOp that is paused has no row of its own; that of another one has.
func TestPausedHelmOps(t *testing.T) {
	op := helmOp()
	op.Spec.Paused = true
	own, other := bundle("web"), bundle("api")
	own.Labels, other.Labels = map[string]string{fleet.LabelHelmOpName: "web"}, map[string]string{fleet.LabelRepoName: "web"}
	own.Spec.Paused, other.Spec.Paused = true, true
	var got []string
	for _, p := range PausedObjects(Fleet{HelmOps: []*fleet.HelmOp{op}, Bundles: []*fleet.Bundle{own, other}}) {
		got = append(got, p.Kind+" "+p.Label())
	}
	if diff := cmp.Diff([]string{"HelmOp helmop web", "Bundle api"}, got); diff != "" {
		t.Error(diff)
	}
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
