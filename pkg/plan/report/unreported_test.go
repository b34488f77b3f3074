package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An agent that starts, and finds everything as it was, has nothing to write down.
func TestNothingUnreported(t *testing.T) {
	found := []fleet.Condition{{Type: "Ready", Status: "True"}}
	kept := Note(nil, nil, found, now, true)
	kept = Note(kept, nil, found, now.Add(time.Hour), false)
	if got := Unreported(kept, nil); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestBackdate follows one condition: what the agent reported at 10:00, what it
// finds at full hours without the manager, whether it was restarted, and what
// it reports in the end.
func TestBackdate(t *testing.T) {
	const day = "2026-08-24T"
	hour := func(h int) time.Time { return time.Date(2026, 8, 24, h, 0, 0, 0, time.UTC) }
	ready := func(status corev1.ConditionStatus, message string) fleet.Condition {
		return fleet.Condition{Type: "Ready", Status: status, Reason: "R", Message: message, ObservedGeneration: 1}
	}
	yes, no := ready("True", ""), ready("False", "pod is gone")
	type look struct {
		hour    int
		found   fleet.Condition
		restart bool // the agent was started before it looked
	}
	cases := map[string]struct {
		why      string
		cached   bool // the agent has what it reported
		looks    []look
		reported fleet.Condition // at 20:00
		changed  string          // the hours in the agent's report
		updated  string
	}{
		"Nothing": {
			"nothing has changed", true, []look{{11, yes, false}}, yes, "10", "10",
		},
		"Broke": {
			"it broke at noon, and was reported at eight", true, []look{{11, yes, false}, {12, no, false}, {13, no, false}}, no, "12", "12",
		},
		"Message": {
			"only the text has changed since", true, []look{{12, no, false}, {14, ready("False", "two pods"), false}}, ready("False", "two pods"), "12", "14",
		},
		"Flapped": {
			"it was down for an hour that was not reported", true, []look{{12, no, false}, {13, yes, false}}, yes, "13", "13",
		},
		"Mended": {
			"it was down until now", true, []look{{12, no, false}}, yes, "20", "20",
		},
		"Restarted": {
			"the memory survives the agent", true, []look{{12, no, false}, {14, no, true}}, no, "12", "12",
		},
		"Unknown": {
			"an agent that started alone does not know since when", false, []look{{12, yes, true}}, yes, "10", "10",
		},
		"UnknownBroke": {
			"but it knows what it has seen itself", false, []look{{12, yes, true}, {13, no, false}}, no, "13", "13",
		},
		"UnknownDown": {
			"down since the start: since when is not known, so the report counts", false, []look{{12, no, true}}, no, "20", "20",
		},
		"UnknownMended": {
			"up again while alone", false, []look{{12, no, true}, {15, yes, false}}, yes, "15", "15",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			old := yes
			old.LastTransitionTime, old.LastUpdateTime = day+"10:00:00Z", day+"10:00:00Z"
			bd := &fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{Conditions: []fleet.Condition{old}}}
			var known, kept, saved []fleet.Condition
			if c.cached {
				known = bd.Status.Conditions
			}
			for _, l := range c.looks {
				first := kept == nil
				if l.restart {
					first, known, kept = true, nil, saved
				}
				kept = Note(kept, known, []fleet.Condition{l.found}, hour(l.hour), first && known == nil)
				saved = Unreported(kept, known)
			}
			w := &writer{bd: bd, now: hour(20), list: bd.Status.Conditions}
			bd.Generation = 1
			w.set("Ready", c.reported.Status, c.reported.Reason, c.reported.Message)
			got := Backdate(w.list, bd.Status.Conditions, kept, hour(20))
			want := c.reported
			want.LastTransitionTime, want.LastUpdateTime = day+c.changed+":00:00Z", day+c.updated+":00:00Z"
			if diff := cmp.Diff([]fleet.Condition{want}, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			// The report ends the backdating: what the agent saved for it has no
			// effect later.
			bd.Status.Conditions = got
			w = &writer{bd: bd, now: hour(22), list: got}
			w.set("Ready", "Unknown", "R", "")
			later := Backdate(w.list, got, saved, hour(22))
			if later[0].LastTransitionTime != day+"22:00:00Z" {
				t.Errorf("a change at ten is reported as of %s", later[0].LastTransitionTime)
			}
		})
	}
}
