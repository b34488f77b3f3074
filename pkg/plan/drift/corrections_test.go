package drift

import (
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A fight in time: each line is what is seen and done, and when the next try may
// come.
func TestFight(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	drifted := fleet.ModifiedStatus{Kind: "Deployment", Namespace: "web", Name: "web",
		Changes: []fleet.FieldChange{{Field: "spec.replicas", Manager: "scaler"}, {Field: "spec.x", Manager: "fleetagent"}}}
	var f CorrectionHistory
	for i, want := range []time.Duration{0, 0, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		f.Found(drifted)
		if wait := f.Wait(now); wait != 0 {
			t.Fatalf("correction %d has to wait for %s", i, wait)
		}
		if got := ContestedMessage([]*CorrectionHistory{&f}); (got != "") != (i >= 3) {
			t.Errorf("after %d corrections: %q", i, got)
		}
		f.Corrected(now)
		if got := f.Wait(now); got != want {
			t.Errorf("after correction %d: want to wait for %s, got %s", i+1, want, got)
		}
		now = now.Add(want)
	}
	other := &CorrectionHistory{}
	other.Found(drifted)
	got := ContestedMessage([]*CorrectionHistory{other, &f})
	want := "scaler keeps changing spec.replicas of Deployment web/web: put back 10 times since 2026-01-01T12:00:00Z, next try "
	if !strings.HasPrefix(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	if f.IsOver(now.Add(-time.Minute)) || !f.IsOver(now.Add(10*time.Minute)) {
		t.Error("a fight is over ten minutes after the last correction")
	}
	if len(got) > 200 {
		t.Errorf("%d characters do not fit into a condition", len(got))
	}
}

func TestRival(t *testing.T) {
	for want, who := range map[string][]string{
		"somebody": nil, "an admission webhook": {"fleetagent"}, "a, b": {"a", "b", "fleetagent"}, "a, b, c": {"a", "b", "c", "d"},
	} {
		if got := (&CorrectionHistory{managers: who}).otherManagers(); got != want {
			t.Errorf("%v: want %q, got %q", who, want, got)
		}
	}
}
