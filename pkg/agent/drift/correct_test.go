package drift

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestFoundDrift(t *testing.T) {
	total := 0
	m := New(t.Context(), Config{OnDrift: func(n int) { total += n }})
	d := m.of("web")
	a, b := fleet.ModifiedStatus{Kind: "ConfigMap", Name: "a"}, fleet.ModifiedStatus{Kind: "ConfigMap", Name: "b"}
	for _, step := range []struct {
		why  string
		now  []fleet.ModifiedStatus
		want int
	}{
		{"new", []fleet.ModifiedStatus{a}, 1},
		{"still there", []fleet.ModifiedStatus{a}, 1},
		{"another one", []fleet.ModifiedStatus{a, b}, 2},
		{"put back", nil, 2},
		{"again", []fleet.ModifiedStatus{a}, 3},
	} {
		if m.found(d, step.now); total != step.want {
			t.Errorf("%s: want %d in all, got %d", step.why, step.want, total)
		}
	}
}
