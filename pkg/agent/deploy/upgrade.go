package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// upgrades bring the release of a deployment to the version that is desired: they
// install or upgrade it.
type upgrades struct {
	releases   *releases
	namespaces *namespaces
	holds      *holds
	failures   *failures
	attempts   *attempts
	acts       *stepReporter
	drift      *drift.Monitor
}

// upgrade takes the steps that install or upgrade a release, if the deployment may use
// its namespace. If it may not, upgrade only observes the release.
func (u *upgrades) upgrade(ctx context.Context, s *snapshot) (ending, error) {
	if s.wanted.Paused || s.spec.DeploymentID == "" {
		u.drift.Ignore(s.name)
		if s.prefetch {
			return over, u.releases.payloads.prepare(ctx, s)
		}
		return over, nil
	}
	ok, err := u.namespaces.checkAllowed(s)
	if err != nil {
		return more, err
	}
	if !ok {
		u.attempts.setTried(s)
		return maintain, u.observeForeign(ctx, s)
	}
	end, err := u.releases.steps(ctx, s, u.upgradeStep)
	if err == nil {
		u.namespaces.applyMeta(ctx, s)
		s.dropForeign()
	}
	return end, err
}

// upgradeStep handles one action of an upgrade. It sets s.failure after a failure.
func (u *upgrades) upgradeStep(ctx context.Context, s *snapshot, a release.Action) (ending, error) {
	if again, ok := renewForCopies(s, a); ok {
		a = release.HoldOutside(again, s.wanted, true)
	}
	switch a.Verb {
	case release.Keep:
		u.upgradeDone(s, a)
		return maintain, nil
	case release.Hold, release.Refuse:
		u.acts.decisionMade(s, a)
		if a.Reason == release.ReasonOutsideWindow {
			return maintain, u.releases.payloads.awaitWindow(ctx, s, a)
		}
		return maintain, u.holds.reportHold(ctx, s, a)
	}
	if s.bd == nil && !mayActAlone(s, a) {
		return maintain, nil
	}
	if err := u.releases.runStep(ctx, s, a); err != nil {
		return maintain, u.failures.handleFailure(ctx, s, err)
	}
	return more, nil
}

// mayActAlone reports whether a step can be taken without the manager: its payload is
// in the store, or it needs none.
func mayActAlone(s *snapshot, a release.Action) bool {
	if a.Verb == release.Install || a.Verb == release.Upgrade {
		return s.hasRecord && s.rec.Chunks > 0
	}
	return s.hasRecord
}

// upgradeDone records that the release is as it should be, or that no step can change
// that.
func (u *upgrades) upgradeDone(s *snapshot, a release.Action) {
	if a.Reason == release.ReasonSettled {
		u.attempts.reportEarlierFailure(s)
		return
	}
	u.attempts.setTried(s)
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
	s.wanted.Applied, s.wanted.Reported = s.spec.DeploymentID, s.spec.DeploymentID
}

// observeForeign observes the release of a deployment that may not use its namespace.
// It drops what it observed of a release that this agent did not make.
func (u *upgrades) observeForeign(ctx context.Context, s *snapshot) error {
	if err := u.releases.observe(ctx, s); err != nil {
		return err
	}
	if s.observed.Memory.Owner != s.wanted.Self {
		s.observed = release.Observed{ID: s.wanted.ID, State: release.Absent}
	}
	s.dropForeign()
	return nil
}
