package helm

import (
	"testing"
	"time"

	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// What a record says of a hook counts for the action at which it stopped, and for
// no other.
func TestHasEnded(t *testing.T) {
	begun := helmtime.Date(2026, 8, 24, 12, 0, 0, 0, time.UTC)
	events := func(e ...helmrelease.HookEvent) []helmrelease.HookEvent { return e }
	run := func(phase helmrelease.HookPhase, after time.Duration) helmrelease.HookExecution {
		return helmrelease.HookExecution{Phase: phase, StartedAt: begun.Add(after)}
	}
	cases := map[string]struct {
		why  string
		hook helmrelease.Hook
		at   release.State
		want bool
	}{
		"Ended": {
			why: "it was begun and has ended in this attempt", at: release.PendingInstall, want: true,
			hook: helmrelease.Hook{Events: events(helmrelease.HookPreInstall), LastRun: run(helmrelease.HookPhaseSucceeded, time.Second)},
		},
		"Running": {
			why: "it was begun, and no more is known", at: release.PendingInstall,
			hook: helmrelease.Hook{Events: events(helmrelease.HookPreInstall), LastRun: run(helmrelease.HookPhaseRunning, time.Second)},
		},
		"Never": {
			why: "it was not begun", at: release.PendingInstall,
			hook: helmrelease.Hook{Events: events(helmrelease.HookPreInstall)},
		},
		"ByAnotherAction": {
			why: "an uninstall finds what the upgrade before it has noted", at: release.Uninstalling,
			hook: helmrelease.Hook{
				Events:  events(helmrelease.HookPreUpgrade, helmrelease.HookPreDelete),
				LastRun: run(helmrelease.HookPhaseSucceeded, time.Second),
			},
		},
		"InTheUninstall": {
			why: "this one was run by the uninstall itself", at: release.Uninstalling, want: true,
			hook: helmrelease.Hook{
				Events:  events(helmrelease.HookPreUpgrade, helmrelease.HookPreDelete),
				LastRun: run(helmrelease.HookPhaseSucceeded, time.Hour),
			},
		},
		"BothEnds": {
			why: "one of its two events is over, and the record does not say whether the other is", at: release.PendingUpgrade,
			hook: helmrelease.Hook{
				Events:  events(helmrelease.HookPreUpgrade, helmrelease.HookPostUpgrade),
				LastRun: run(helmrelease.HookPhaseSucceeded, time.Second),
			},
		},
		"OtherEvent": {
			why: "it is no hook of this action", at: release.PendingUpgrade,
			hook: helmrelease.Hook{Events: events(helmrelease.HookTest), LastRun: run(helmrelease.HookPhaseSucceeded, time.Second)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &helmrelease.Release{Info: &helmrelease.Info{LastDeployed: begun, Deleted: begun.Add(time.Minute)}}
			if got := hasEnded(&c.hook, r, c.at); got != c.want {
				t.Errorf("%s: want %t, got %t", c.why, c.want, got)
			}
		})
	}
}
