package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// A HelmOp is Ready only when its spec was looked at, its source answers, and its Bundle is
// deployed; the status says what is missing.
func TestHelmOpStatus(t *testing.T) {
	now := time.Unix(1, 0)
	accepted := fleet.Condition{Type: fleet.ConditionAccepted, Status: corev1.ConditionTrue, ObservedGeneration: 7}
	of := func(kind string, status corev1.ConditionStatus) fleet.Condition {
		return fleet.Condition{Type: kind, Status: status, Reason: "R", Message: "why", ObservedGeneration: 7}
	}
	deployed := Sources{
		Bundles:     []RepoBundle{{Name: "op", Targets: 1}},
		Deployments: []*Deployment{{Bundle: "op", Cluster: "a/c1", State: fleet.Ready}},
	}
	broken := deployed
	broken.Bundles = []RepoBundle{{Name: "op", Problem: &Problem{"R", "cannot be targeted"}}}
	for name, c := range map[string]struct {
		conditions []fleet.Condition
		sources    Sources
		want       string // message of Ready; empty: it is True
		error      bool
	}{
		"Ready":      {[]fleet.Condition{accepted}, deployed, "", false},
		"New":        {nil, Sources{}, "the changed spec was not looked at yet", false},
		"OldSpec":    {[]fleet.Condition{{Type: fleet.ConditionAccepted, Status: corev1.ConditionTrue, ObservedGeneration: 6}}, deployed, "the changed spec was not looked at yet", false},
		"NoBundle":   {[]fleet.Condition{accepted}, Sources{}, "no bundle was made from the chart yet", false},
		"Refused":    {[]fleet.Condition{of(fleet.ConditionAccepted, corev1.ConditionFalse)}, deployed, "why", true},
		"Stalled":    {[]fleet.Condition{accepted, of(fleet.ConditionStalled, corev1.ConditionTrue)}, deployed, "why", true},
		"NotPolled":  {[]fleet.Condition{accepted, of(fleet.ConditionPolled, corev1.ConditionFalse)}, deployed, "why", true},
		"SourceAway": {[]fleet.Condition{accepted, of(fleet.ConditionReconciling, corev1.ConditionTrue)}, deployed, "why", true},
		"Bundle":     {[]fleet.Condition{accepted}, broken, "bundle op: cannot be targeted", true},
	} {
		t.Run(name, func(t *testing.T) {
			op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "op", Generation: 7}}
			op.Status.Version, op.Status.Conditions = "1.2.3", c.conditions
			got := HelmOpStatus(op, c.sources, now)
			ready := condition.Find(got.Conditions, fleet.ConditionReady)
			if ready == nil || (ready.Status == corev1.ConditionTrue) != (c.want == "") || ready.Message != c.want {
				t.Errorf("want %q, got %+v", c.want, ready)
			}
			if sum := got.Summary; (sum.Ready == sum.DesiredReady) != (len(c.sources.Deployments) > 0) {
				t.Errorf("Rancher takes this for a success or none: %+v", sum)
			}
			if got.Display.Error != c.error || got.Version != "1.2.3" {
				t.Errorf("got %+v", got)
			}
			op.Status = got
			if diff := cmp.Diff(got, HelmOpStatus(op, c.sources, now.Add(time.Hour))); diff != "" {
				t.Errorf("a second look changes it:\n%s", diff)
			}
		})
	}
}
