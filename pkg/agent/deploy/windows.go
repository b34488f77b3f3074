package deploy

import (
	"context"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// windowCheck is after which time at the latest a deployment that waits for a window looks
// at the clock again: a clock may be set while the agent runs.
const windowCheck = time.Hour

// changeWindows are when a deployment may be changed: the values of AnnotationWindows and
// AnnotationOpenUntil.
type changeWindows struct{ windows, openUntil string }

func windowsOf(bd *fleet.BundleDeployment) changeWindows {
	return changeWindows{bd.Annotations[fleet.AnnotationWindows], bd.Annotations[fleet.AnnotationOpenUntil]}
}

// isPaused reports whether the manager asks that nothing of a deployment is changed.
// OffSchedule is for agents that do not know the windows themselves.
func isPaused(spec *fleet.BundleDeploymentSpec, w changeWindows) bool {
	return spec.Paused || spec.WaitingForValues || spec.OffSchedule && w.windows == ""
}

// windowState is whether a deployment may be changed at a time.
type windowState struct {
	closed   string        // why it must not be changed; empty: it may
	override string        // in words, if only that opens the deployment
	freeze   bool          // while closed, it is not to be corrected either
	opensIn  time.Duration // while closed: when to look again
}

// at returns the state at a time.
func (cw changeWindows) at(now time.Time) windowState {
	windows := schedule.Decode(cw.windows)
	if windows.Open(now) {
		return windowState{}
	}
	override, err := schedule.ParseOverride(cw.openUntil) // one that cannot be read opens nothing
	if err == nil && override.Active(now) {
		return windowState{override: override.String()}
	}
	after := windowCheck
	for _, at := range []time.Time{windows.NextOpen(now), override.NextChange(now)} {
		if !at.IsZero() {
			after = min(after, at.Sub(now))
		}
	}
	return windowState{closed: windows.Closed(now), freeze: windows.Freeze(), opensIn: after}
}

// closeOutside completes the input of release.Decide outside of the change windows.
func (s *snapshot) closeOutside(w *release.Wanted) {
	if s.windows.windows == "" {
		return
	}
	state := s.windows.at(w.Now)
	w.Closed, w.OpensIn, s.override = state.closed, state.opensIn, state.override
	if state.freeze && !w.Paused {
		w.Paused, s.prefetch = true, w.Applied != w.DeploymentID
		s.requeueAfter(w.OpensIn)
	}
}

// awaitWindow lets a version wait for a change window.
func (pl *payloads) awaitWindow(ctx context.Context, s *snapshot, a release.Action) error {
	s.fail(report.Failure{Reason: a.Reason, Message: a.Message, Waiting: true})
	s.requeueAfter(a.After)
	return pl.prepare(ctx, s)
}

// prepare gets all that a version needs which waits for a change window: the window may
// open while the manager is away.
func (pl *payloads) prepare(ctx context.Context, s *snapshot) error {
	if s.bd == nil || s.session == nil {
		return nil
	}
	if _, err := pl.get(ctx, s); err != nil {
		s.requeueAfter(bringDelay) // what is missing is reported when the version is deployed
		return nil
	}
	if s.rec.Windows == s.windows.windows && s.rec.OpenUntil == s.windows.openUntil {
		return nil
	}
	return pl.records.save(ctx, s)
}
