package deploy

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestDifferences(t *testing.T) {
	cm := func(name, patch string) fleet.ModifiedStatus {
		return fleet.ModifiedStatus{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: name, Patch: patch}
	}
	gone, foreign := cm("a", ""), cm("b", "")
	gone.Create, foreign.Create, foreign.Exist = true, true, true
	cases := map[string]struct {
		why     string
		changed []fleet.ModifiedStatus
		want    string
	}{
		"NoValue": {
			why: "a value may be anybody's secret", changed: []fleet.ModifiedStatus{cm("a", `{"data":{"password":"s3cr3t"}}`)},
			want: "ConfigMap web/a /data/password",
		},
		"Gone":  {why: "there is no field", changed: []fleet.ModifiedStatus{gone, foreign}, want: "ConfigMap web/a was gone, ConfigMap web/b had lost its label"},
		"Many":  {why: "a line is short", changed: []fleet.ModifiedStatus{gone, gone, gone, gone}, want: "ConfigMap web/a was gone, ConfigMap web/a was gone, 2 more objects"},
		"Wide":  {why: "a line is short", changed: []fleet.ModifiedStatus{cm("a", `{"data":{"a":1,"b":1,"c":1,"d":1,"e":1}}`)}, want: "ConfigMap web/a /data/a /data/b /data/c and 2 more"},
		"Whole": {why: "a cluster-scoped object has no namespace", changed: []fleet.ModifiedStatus{{Kind: "Namespace", Name: "n", Patch: "?"}}, want: "Namespace n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, differences(c.changed)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// What is told of a step holds none of the Helm values, but the names in it stay.
func TestActsAreRedacted(t *testing.T) {
	var got []Act
	l := newStepReporter(time.Now, func(a Act) { got = append(got, a) })
	s := &snapshot{name: "web", wanted: release.Wanted{ID: release.ID{Namespace: "shop", Name: "web"}}}
	s.observed.Values = map[string]any{"password": "canary-1", "name": "web", "site": "shop"}
	l.report(s, Act{Verb: release.Install, Result: Failed, Message: "shop/web: Secret has canary-1"})
	if len(got) != 1 || got[0].Message != "shop/web: Secret has ***" || got[0].Deployment != "web" || got[0].At.IsZero() {
		t.Errorf("got %+v", got)
	}
}

func TestResultOf(t *testing.T) {
	cause := errors.New("x")
	for want, err := range map[Result]error{
		Permanent: reconcile.TerminalError("InvalidChart", cause), Waiting: reconcile.RequeueError("ContentMissing", 0, cause), Failed: cause,
	} {
		if got := resultOf(err); got != want {
			t.Errorf("%v: want %s, got %s", err, want, got)
		}
	}
	if got := resultOf(reconcile.RequeueError(release.ReasonForbidden, 0, cause)); got != Failed {
		t.Errorf("a wait that somebody has to end is a failure, got %s", got)
	}
}
