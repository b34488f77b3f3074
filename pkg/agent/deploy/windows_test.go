package deploy

import (
	"testing"
	"testing/synctest"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

func nights(freeze bool) string {
	return schedule.Encode([]schedule.Definition{{Name: "nights", Cron: "0 0 22 * * ?", Duration: "2h", Location: "UTC", Freeze: freeze}})
}

// A new version waits for the window and is deployed in it, also by an agent that has lost
// its manager, or that was started again: all that it needs is in the record.
func TestVersionWaitsForWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on 1 January 2000, 00:00 UTC
		decide := func() (*snapshot, release.Action) {
			s := &snapshot{name: "web", hasRecord: true, windows: changeWindows{windows: nights(false)}}
			s.rec.Windows = s.windows.windows
			s.spec.DeploymentID, s.rec.Applied, s.rec.Chunks = "s-2:b", "s-1:a", 1
			w := release.Wanted{
				ID: release.ID{Namespace: "ns", Name: "web"}, DeploymentID: s.spec.DeploymentID, Applied: s.rec.Applied, Now: time.Now(), Unreported: true,
			}
			s.closeOutside(&w)
			return s, release.Decide(release.Observed{ID: w.ID, State: release.Absent}, w)
		}
		slept := time.Duration(0)
		for range 100 {
			_, a := decide()
			if a.Verb != release.Hold {
				break
			}
			if a.Reason != release.ReasonOutsideWindow || a.After <= 0 || a.After > windowCheck {
				t.Fatalf("got %+v", a)
			}
			time.Sleep(a.After)
			slept += a.After
		}
		s, a := decide()
		if a.Verb != release.Install || slept != 22*time.Hour || !mayActAlone(s, a) {
			t.Errorf("after %s: %+v", slept, a)
		}
	})
}

func TestOutsideWindows(t *testing.T) {
	noon := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	night := noon.Add(11 * time.Hour)
	cases := map[string]struct {
		why                  string
		windows              changeWindows
		now                  time.Time
		closed, paused, open bool
	}{
		"Open":       {"in a window", changeWindows{windows: nights(false)}, night, false, false, false},
		"Closed":     {"outside of it", changeWindows{windows: nights(false)}, noon, true, false, false},
		"Frozen":     {"nothing is corrected either", changeWindows{windows: nights(true)}, noon, true, true, false},
		"Overridden": {"an override opens it", changeWindows{nights(true), "2027-01-01T13:00:00Z fix"}, noon, false, false, true},
		"Ended":      {"the override has ended", changeWindows{nights(false), "2027-01-01T11:00:00Z fix"}, noon, true, false, false},
		"NotNeeded":  {"in a window an override has no effect", changeWindows{nights(false), "2027-01-02T13:00:00Z fix"}, night, false, false, false},
		"None":       {"no Schedule", changeWindows{openUntil: "2027-01-01T13:00:00Z fix"}, noon, false, false, false},
		"Unreadable": {"nothing is changed", changeWindows{windows: "?"}, noon, true, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, w := &snapshot{windows: c.windows}, release.Wanted{Now: c.now}
			s.closeOutside(&w)
			if (w.Closed != "") != c.closed || w.Paused != c.paused || (s.override != "") != c.open || c.closed != (w.OpensIn > 0) {
				t.Errorf("%s: closed %q, paused %t, override %q, opens in %s", c.why, w.Closed, w.Paused, s.override, w.OpensIn)
			}
			if c.paused && s.after == 0 {
				t.Error("nothing wakes it up")
			}
		})
	}
}

// offSchedule is for agents that do not know the windows themselves.
func TestOffScheduleWithWindows(t *testing.T) {
	spec := fleet.BundleDeploymentSpec{OffSchedule: true}
	if !isPaused(&spec, changeWindows{}) || isPaused(&spec, changeWindows{windows: nights(false)}) {
		t.Error("offSchedule counts where there are no windows, and only there")
	}
}
