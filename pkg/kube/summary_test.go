package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/summary"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	plan "github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// The text of an object in a status is that of the library with which the reference and
// Rancher write theirs.
func TestSummaryText(t *testing.T) {
	for _, state := range []fleet.Summary{
		{State: "active", Message: []string{"a"}},
		{State: "error", Error: true},
		{State: "error", Error: true, Message: []string{"a", "b"}},
		{State: "updating", Transitioning: true, Message: []string{"a"}},
		{State: "updating", Transitioning: true, Error: true, Message: []string{"a"}},
	} {
		theirs := summary.Summary{State: state.State, Error: state.Error, Transitioning: state.Transitioning, Message: state.Message}
		if got, want := state.String(), theirs.String(); got != want {
			t.Errorf("%+v: want %q, got %q", state, want, got)
		}
	}
}

// A refStatus is what the agent of the reference reports of one deployment.
type refStatus struct {
	applied             string
	unready, modified   bool
	deployed, installed string // why the condition is False; empty: it is True
	ready, monitored    string
	never               bool // it has reported nothing
}

func (r refStatus) of(bd fleet.BundleDeployment) *fleet.BundleDeployment {
	bd.Status = fleet.BundleDeploymentStatus{AppliedDeploymentID: r.applied, Ready: !r.unready, NonModified: !r.modified}
	if !r.never {
		for _, c := range [][2]string{{"Installed", r.installed}, {"Deployed", r.deployed}, {"Ready", r.ready}, {"Monitored", r.monitored}} {
			made := fleet.Condition{Type: c[0], Status: corev1.ConditionTrue}
			if c[1] != "" {
				made.Status, made.Reason, made.Message = corev1.ConditionFalse, "Error", c[1]
			}
			bd.Status.Conditions = append(bd.Status.Conditions, made)
		}
	}
	bd.Status.Display = plan.Display(&bd)
	return &bd
}

// Rancher shows a deployment of this project's agent as it shows one of the reference's: in
// the same state, with the same flags, and with the same messages, which may go on.
func TestRancherShowsTheSame(t *testing.T) {
	object := report.Object{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "a"}
	broken, changed := object, object
	broken.NonReady = &fleet.NonReadyStatus{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "a", Summary: fleet.Summary{Error: true, Message: []string{"no image"}}}
	changed.Modified = &fleet.ModifiedStatus{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "a", Patch: "{}"}
	running := func(o report.Object) report.Found {
		return report.Found{ID: "new", Release: "ns/web:2", Objects: []report.Object{o}}
	}
	failing := func(f report.Failure) report.Found { return report.Found{Failure: &f} }
	uncorrected := running(changed)
	uncorrected.Correction = plan.NotCorrected + "no"
	cases := map[string]struct {
		found report.Found
		want  refStatus
	}{
		"Ready":       {running(object), refStatus{applied: "new"}},
		"NotReady":    {running(broken), refStatus{applied: "new", unready: true, ready: "pod.v1 ns/a error] no image"}},
		"Modified":    {running(changed), refStatus{applied: "new", modified: true, ready: "pod.v1 ns/a modified {}"}},
		"Uncorrected": {uncorrected, refStatus{applied: "new", modified: true, ready: plan.NotCorrected + "no"}},
		"Recorded": {
			failing(report.Failure{Reason: release.ReasonInvalidObject, Message: "bad", Permanent: true}),
			refStatus{applied: "new", unready: true, installed: "not installed: bad", ready: "not ready: bad"},
		},
		"Permanent": {
			failing(report.Failure{Reason: release.ReasonBadTemplate, Message: "bad", Permanent: true}), refStatus{unready: true, deployed: "bad"},
		},
		"TriedAgain": {failing(report.Failure{Reason: release.ReasonForbidden, Message: "no"}), refStatus{unready: true, deployed: "no"}},
		"Depends": {
			failing(report.Failure{Reason: "DependenciesNotReady", Message: "dependent bundle(s) are not ready: [db]; depends on db, which is NotReady"}),
			refStatus{unready: true, deployed: "dependent bundle(s) are not ready: [db]"},
		},
		"Waits": {failing(report.Failure{Reason: "ValuesPending", Message: "later", Waiting: true}), refStatus{never: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := fleet.BundleDeployment{
				TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "BundleDeployment"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-c1", Name: "web", Generation: 1},
				Spec:       fleet.BundleDeploymentSpec{DeploymentID: "new", StagedDeploymentID: "new"},
			}
			want := summary.Summarize(c.want.of(bd))
			bd.Status = report.Status(&bd, c.found, time.Unix(0, 0))
			got := summary.Summarize(&bd)
			type shown struct {
				State                string
				Error, Transitioning bool
			}
			if diff := cmp.Diff(shown{want.State, want.Error, want.Transitioning}, shown{got.State, got.Error, got.Transitioning}); diff != "" {
				t.Errorf("-reference +here\n%s", diff)
			}
			for _, text := range want.Message {
				if !slices.ContainsFunc(got.Message, func(s string) bool { return strings.HasPrefix(s, text) }) {
					t.Errorf("want a message that begins with %q, got %q", text, got.Message)
				}
			}
		})
	}
}
