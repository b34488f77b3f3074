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

func TestHelmOpRefused(t *testing.T) {
	now := time.Unix(1, 0)
	ready := fleet.StatusBase{
		ReadyClusters: 1, DesiredReadyClusters: 1, Summary: fleet.BundleSummary{Ready: 1, DesiredReady: 1},
		Display:                  fleet.StatusDisplay{ReadyBundleDeployments: "1/1"},
		Conditions:               []fleet.Condition{{Type: fleet.ConditionReady, Status: corev1.ConditionTrue}},
		ResourceCounts:           fleet.ResourceCounts{Ready: 3, DesiredReady: 3},
		PerClusterResourceCounts: map[string]*fleet.ResourceCounts{"a/b": {Ready: 3}},
		Resources:                []fleet.DeployedResource{{Kind: "ConfigMap"}},
	}
	want := fleet.BundleSummary{
		DesiredReady: 1, ErrApplied: 1,
		NonReadyResources: []fleet.NonReadyResource{{Name: "op", State: fleet.ErrApplied, Message: "why"}},
	}
	for name, c := range map[string]struct {
		why    string
		status fleet.HelmOpStatus
	}{
		"New":      {"Rancher takes nothing of nothing for a success", fleet.HelmOpStatus{}},
		"TakeOver": {"what another manager has found ready is ready no more", fleet.HelmOpStatus{Version: "1.2.3", StatusBase: ready}},
	} {
		t.Run(name, func(t *testing.T) {
			op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "op", Generation: 7}, Status: c.status}
			got := HelmOpRefused(op, "why", now)
			if diff := cmp.Diff(want, got.Summary); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if got.Version != c.status.Version || got.ReadyClusters+got.DesiredReadyClusters != 0 || got.ResourceCounts != (fleet.ResourceCounts{}) ||
				got.Resources != nil || got.PerClusterResourceCounts != nil {
				t.Errorf("%+v", got)
			}
			if c := condition.Find(got.Conditions, fleet.ConditionReady); c == nil || c.Status != corev1.ConditionFalse || c.Message != "why" {
				t.Errorf("%+v", got.Conditions)
			}
			op.Status = got
			if diff := cmp.Diff(got, HelmOpRefused(op, "why", now.Add(time.Hour))); diff != "" {
				t.Errorf("a second look changes it:\n%s", diff)
			}
		})
	}
}
