package kube

import (
	"testing"

	"github.com/rancher/wrangler/v3/pkg/summary"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
