package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestNextVisit(t *testing.T) {
	seen := time.Date(2026, 8, 24, 3, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		why  string
		next time.Duration // after it was seen; 0: it does not say
		poll bool
		want bool
	}{
		"Nightly":   {"as its own configuration says", 24 * time.Hour, false, true},
		"Often":     {"as its Cluster says", 10 * time.Minute, true, true},
		"Connected": {"a check-in is no visit", time.Minute, false, false},
		"Unknown":   {"it has not come yet", 0, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &fleet.Cluster{}
			obj.Status.Agent.LastSeen = metav1.NewTime(seen)
			if c.next > 0 {
				at := metav1.NewTime(seen.Add(c.next))
				obj.Status.Agent.NextCheckIn = &at
			}
			if c.poll {
				obj.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: "poll", Schedule: "*/10 * * * *"}
			}
			got := NextVisit(obj)
			if c.want != got.Equal(seen.Add(c.next)) || !c.want && !got.IsZero() {
				t.Errorf("%s: %s", c.why, got)
			}
		})
	}
}
