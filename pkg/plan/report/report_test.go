package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

var now = time.Date(2026, 8, 24, 14, 2, 0, 0, time.UTC)

func wanted() *fleet.BundleDeployment {
	return &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 4},
		Spec:       fleet.BundleDeploymentSpec{DeploymentID: "new", StagedDeploymentID: "new"},
	}
}

func object(name string) Object {
	return Object{Kind: "ConfigMap", APIVersion: "v1", Namespace: "ns", Name: name}
}

func modified(name string) Object {
	o := object(name)
	o.Modified = &fleet.ModifiedStatus{Kind: o.Kind, APIVersion: o.APIVersion, Namespace: o.Namespace, Name: o.Name, Patch: "{}"}
	return o
}

func missing(name string) Object {
	o := modified(name)
	o.Modified.Create, o.Modified.Patch = true, ""
	return o
}

func notReady(name string, failed bool) Object {
	o := object(name)
	o.NonReady = &fleet.NonReadyStatus{
		Kind: o.Kind, APIVersion: o.APIVersion, Namespace: o.Namespace, Name: o.Name,
		Summary: fleet.Summary{Transitioning: !failed, Error: failed, Message: []string{"wait"}},
	}
	return o
}

func TestStatus(t *testing.T) {
	runs := Found{ID: "new", Release: "ns/web:2", Objects: []Object{object("a")}}
	with := func(f func(*Found)) Found {
		out := runs
		f(&out)
		return out
	}
	cases := map[string]struct {
		why     string
		found   Found
		state   fleet.BundleState
		applied string
		release string
		ready   string // message of Ready; "-" for true
		stalled bool
		passing bool
	}{
		"Ready": {
			why: "all is there and as it was deployed", found: runs,
			state: fleet.Ready, applied: "new", release: "ns/web:2", ready: "-",
		},
		"NotReady": {
			why: "an object is on its way", found: with(func(f *Found) { f.Objects = []Object{notReady("a", false)} }),
			state: fleet.NotReady, applied: "new", release: "ns/web:2", ready: "configmap.v1 ns/a [progressing] wait", passing: true,
		},
		"NotAllowed": {
			why:   "what runs is as wanted, but may not be there any more",
			found: with(func(f *Found) { f.Failure = &Failure{Reason: release.ReasonNotAllowed, Message: "labels"} }),
			state: fleet.NotReady, applied: "new", release: "ns/web:2", ready: "labels",
		},
		"FailedObject": {
			why: "an object that failed is no passing state", found: with(func(f *Found) { f.Objects = []Object{notReady("a", true)} }),
			state: fleet.NotReady, applied: "new", release: "ns/web:2", ready: "configmap.v1 ns/a error] wait",
		},
		"Modified": {
			why: "the first modified object is named", found: with(func(f *Found) { f.Objects = []Object{modified("b"), missing("a")} }),
			state: fleet.Modified, applied: "new", release: "ns/web:2", ready: "configmap.v1 ns/a missing",
		},
		"Waits": {
			why: "while something expected is missing, what runs stays reported",
			found: with(func(f *Found) {
				f.ID, f.Failure = "old", &Failure{Reason: "ValuesPending", Message: "later", Waiting: true}
			}),
			state: fleet.WaitApplied, applied: "old", release: "ns/web:2", ready: "later",
		},
		"Failed": {
			why:   "an error that may pass",
			found: with(func(f *Found) { f.ID, f.Failure = "old", &Failure{Reason: "Error", Message: "boom"} }),
			state: fleet.ErrApplied, applied: "old", release: "ns/web:2", ready: "boom",
		},
		"FailedForGood": {
			why: "a template error is no state of the cluster",
			found: with(func(f *Found) {
				f.ID, f.Failure = "old", &Failure{Reason: release.ReasonBadTemplate, Message: "boom", Permanent: true}
			}),
			state: fleet.ErrApplied, applied: "old", release: "ns/web:2", ready: "boom", stalled: true,
		},
		"Recorded": {
			why: "what the reference counts as applied is counted so",
			found: with(func(f *Found) {
				f.ID, f.Failure = "old", &Failure{Reason: release.ReasonTimeout, Message: "slow", Permanent: true}
			}),
			state: fleet.NotReady, applied: "new", ready: "not ready: slow", stalled: true,
		},
		"Blind": {
			why: "what cannot be looked at is not ready", found: with(func(f *Found) { f.Blind = "no API" }),
			state: fleet.NotReady, applied: "new", release: "ns/web:2", ready: "no API",
		},
		"CorrectionFailed": {
			why:   "drift stays because it could not be corrected",
			found: with(func(f *Found) { f.Objects, f.Correction = []Object{modified("a")}, "drift not corrected: no" }),
			state: fleet.Modified, applied: "new", release: "ns/web:2", ready: "drift not corrected: no",
		},
		"Nothing": {why: "nothing was tried yet", found: Found{}, state: fleet.WaitApplied, ready: "not ready"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := wanted()
			bd.Status = Status(bd, c.found, now)
			ready := condition.Find(bd.Status.Conditions, fleet.ConditionReady)
			text := ready.Message
			failure := c.found.Failure
			seen := failure == nil && c.found.Blind == "" && (c.state == fleet.NotReady || c.state == fleet.Modified)
			if (seen || failure != nil && c.state == fleet.NotReady && release.Recorded(failure.Reason)) && ready.Reason != fleet.ReasonError {
				t.Errorf("clients of the reference see no error: the reason of Ready is %q", ready.Reason)
			}
			if ready.Status == "True" {
				text = "-"
			}
			got := []any{summary.State(bd, ""), bd.Status.AppliedDeploymentID, bd.Status.Release, text, condition.IsTrue(bd.Status.Conditions, fleet.ConditionStalled), IsTransient(bd.Status)}
			want := []any{c.state, c.applied, c.release, c.ready, c.stalled, c.passing}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: state, applied, release, ready, stalled, passing\n-want +got\n%s", c.why, diff)
			}
			if bd.Status.Display.State != string(c.state) {
				t.Errorf("display %+v", bd.Status.Display)
			}
			again := Status(bd, c.found, now.Add(time.Hour))
			if !Equivalent(again, bd.Status) {
				t.Errorf("the same findings an hour later are another status:\n%s", cmp.Diff(bd.Status, again))
			}
		})
	}
}

func TestCounts(t *testing.T) {
	f := Found{ID: "new", Release: "r", Objects: []Object{object("z"), modified("m"), missing("x"), notReady("n", false)}}
	for i := range 20 {
		f.Objects = append(f.Objects, modified(fmt.Sprintf("k%02d", i)))
	}
	got := Status(wanted(), f, now)
	want := fleet.ResourceCounts{DesiredReady: 24, Ready: 1, Modified: 21, Missing: 1, NotReady: 1}
	if diff := cmp.Diff(want, got.ResourceCounts); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(got.ModifiedStatus) != fleet.StatusListLimit || !got.IncompleteState || len(got.Resources) != 24 {
		t.Errorf("%d modified, incomplete %v, %d resources", len(got.ModifiedStatus), got.IncompleteState, len(got.Resources))
	}
	bd := wanted()
	bd.Status = got
	if fewer := Status(bd, Found{ID: "new", Objects: []Object{modified("m")}}, now); fewer.IncompleteState {
		t.Error("a list that is complete again still counts as cut")
	}
}

func TestWithdrawn(t *testing.T) {
	bd := wanted()
	bd.Status = Status(bd, Found{ID: "new", Release: "ns/web:2", Objects: []Object{object("a")}}, now)
	if Answered(bd, "o1") {
		t.Error("not answered yet")
	}
	bd.Status = Withdrawn(bd, "o1", "gone", now)
	if !Answered(bd, "o1") || Answered(bd, "o2") {
		t.Error("this order is answered, and no other")
	}
	if bd.Status.AppliedDeploymentID != "" || bd.Status.Release != "" || len(bd.Status.Resources) != 0 {
		t.Errorf("something is left: %+v", bd.Status)
	}
	// Wanted again: the answer must not stay, or a later order would look done.
	bd.Status = Status(bd, Found{ID: "new"}, now)
	if condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn) != nil {
		t.Error("the answer is still there")
	}
}

// After an upgrade that failed for good, Deployed is False, and the objects of the
// version before it that differ or are not ready stay listed.
func TestFailedUpgradeKeepsDrift(t *testing.T) {
	f := Found{
		ID: "old", Release: "ns/web:2", Objects: []Object{modified("m"), notReady("n", true)},
		Failure: &Failure{Reason: release.ReasonNotOwned, Message: "Service ns/web exists", Permanent: true},
	}
	bd := wanted()
	bd.Status = Status(bd, f, now)
	for _, kind := range []string{fleet.ConditionDeployed, fleet.ConditionInstalled} {
		c := condition.Find(bd.Status.Conditions, kind)
		if c == nil || c.Status != "False" || c.Reason != release.ReasonNotOwned || c.Message != "not installed: Service ns/web exists" {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if got, want := summary.Message(bd), "upgrade failed, the version before still runs: Service ns/web exists"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if before, _ := summary.Upgrade(bd); before != "ns/web:2 still runs" {
		t.Errorf("the release before: %q", before)
	}
	f.Failure.Reason = release.ReasonTimeout
	bd.Status = Status(bd, f, now)
	if got, want := summary.Message(bd), "upgrade failed: Service ns/web exists"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if len(bd.Status.ModifiedStatus) != 1 || len(bd.Status.NonReadyStatus) != 1 || bd.Status.NonModified {
		t.Errorf("what differs is hidden: %+v", bd.Status)
	}
	if got := summary.State(bd, ""); got != fleet.NotReady {
		t.Errorf("state %s", got)
	}
}

// A first installation that failed has nothing that still runs.
func TestFailedInstallation(t *testing.T) {
	bd := wanted()
	bd.Status = Status(bd, Found{Failure: &Failure{Reason: release.ReasonNotOwned, Message: "Service ns/web exists", Permanent: true}}, now)
	if got, want := summary.Message(bd), "not installed: Service ns/web exists"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// Objects that a deployment is about to take over are listed, each once, and not
// counted: they are not its own yet.
func TestAwaitedObjects(t *testing.T) {
	f := Found{
		ID: "old", Release: "ns/web:2", Objects: []Object{object("a")}, Awaited: []Object{object("a"), object("b")},
		Failure: &Failure{Reason: release.ReasonSharedObject, Message: "another one has it", Waiting: true},
	}
	got := Status(wanted(), f, now)
	var names []string
	for _, r := range got.Resources {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || got.ResourceCounts.DesiredReady != 1 {
		t.Errorf("counts %+v, names -want +got\n%s", got.ResourceCounts, diff)
	}
}
