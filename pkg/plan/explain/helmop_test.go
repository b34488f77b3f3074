package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestWithoutBundle(t *testing.T) {
	accepted := fleet.Condition{Type: fleet.ConditionAccepted, Status: corev1.ConditionTrue, ObservedGeneration: 1}
	reconciling := func(reason string) []fleet.Condition {
		return []fleet.Condition{accepted, {Type: fleet.ConditionReconciling, Status: corev1.ConditionTrue, Reason: reason, Message: "why", ObservedGeneration: 1}}
	}
	for name, c := range map[string]struct {
		change          func(*fleet.HelmOp)
		reason, message string
	}{
		"New":       {func(*fleet.HelmOp) {}, "NotRead", "the manager has not worked on the HelmOp yet"},
		"Worked":    {func(op *fleet.HelmOp) { op.Status.Conditions = []fleet.Condition{accepted} }, ReasonNotWritten, "no bundle was made from the HelmOp yet"},
		"Retried":   {func(op *fleet.HelmOp) { op.Status.Conditions = reconciling("Unreachable") }, "Unreachable", "why"},
		"Suspended": {func(op *fleet.HelmOp) { op.Status.Conditions = reconciling(fleet.ReasonSuspended) }, fleet.ReasonSuspended, "why"},
		"Leaving":   {func(op *fleet.HelmOp) { op.DeletionTimestamp = &metav1.Time{} }, ReasonLeaving, "helmop web is being removed, with all that it deployed"},
	} {
		t.Run(name, func(t *testing.T) {
			op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", Generation: 1}}
			c.change(op)
			got := WithoutBundle(Subject{HelmOp: op})
			if got.StoppedAt != Source || got.Reason != c.reason || got.Message != c.message || got.Headline() != "helmop web has no bundle" {
				t.Errorf("got %+v", got)
			}
			if resumes := len(got.Hints) == 1 && got.Hints[0].Do == "fleet resume --all"; resumes != (c.reason == fleet.ReasonSuspended) {
				t.Errorf("got hints %v", got.Hints)
			}
		})
	}
}

func TestVersionText(t *testing.T) {
	for want, spec := range map[string]fleet.HelmOpSpec{
		", version 1.2.0": {BundleSpec: wants("1.2.0")},
		", the newest version is 1.2.0, asked for when the spec changes": {BundleSpec: wants("")},
		", ^1 is 1.2.0, asked for every 1h30m":                           {BundleSpec: wants("^1"), PollingInterval: &metav1.Duration{Duration: 90 * time.Minute}},
		", ~1 is 1.2.0, asked for every 10s":                             {BundleSpec: wants("~1"), PollingInterval: &metav1.Duration{Duration: 10 * time.Second}},
		", * is 1.2.0, asked for every 1h":                               {BundleSpec: wants("*"), PollingInterval: &metav1.Duration{Duration: time.Hour}},
	} {
		if got := versionText(&fleet.HelmOp{Spec: spec, Status: fleet.HelmOpStatus{Version: "1.2.0"}}); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func wants(version string) fleet.BundleSpec {
	s := fleet.BundleSpec{}
	s.Helm = &fleet.HelmOptions{Repo: "https://charts.example.com", Chart: "web", Version: version}
	return s
}
