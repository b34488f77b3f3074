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

// closed says why a deployment must not be changed at a time, and whether it is not to be
// corrected either. It returns the override, in words, if only that opens the deployment.
func (cw changeWindows) closed(now time.Time) (why, override string, freeze bool) {
	windows := schedule.Decode(cw.windows)
	if windows.Open(now) {
		return "", "", false
	}
	if o, err := schedule.ParseOverride(cw.openUntil); err == nil && o.Active(now) {
		return "", o.String(), false
	}
	return windows.Closed(now), "", windows.Freeze()
}

// opensIn returns when to look at closed windows again.
func (cw changeWindows) opensIn(now time.Time) time.Duration {
	after := windowCheck
	override, _ := schedule.ParseOverride(cw.openUntil) // one that cannot be read opens nothing
	for _, at := range []time.Time{schedule.Decode(cw.windows).NextOpen(now), override.NextChange(now)} {
		if !at.IsZero() {
			after = min(after, at.Sub(now))
		}
	}
	return after
}

// closeOutside completes the input of release.Decide outside of the change windows.
func (s *snapshot) closeOutside(w *release.Wanted) {
	if s.windows.windows == "" {
		return
	}
	freeze := false
	w.Closed, s.override, freeze = s.windows.closed(w.Now)
	if w.Closed == "" {
		return
	}
	w.OpensIn = s.windows.opensIn(w.Now)
	if freeze && !w.Paused {
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
