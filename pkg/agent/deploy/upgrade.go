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
	acts       *acts
	drift      *drift.Monitor
}

// upgrade takes the steps that bring a deployment about, where it may go to its
// namespace. If it may not, upgrade only observes what runs.
func (u *upgrades) upgrade(ctx context.Context, s *snapshot) (ending, error) {
	if s.wanted.Paused || s.spec.DeploymentID == "" {
		u.drift.Ignore(s.name)
		return over, nil
	}
	ok, err := u.namespaces.allowed(s)
	if err != nil {
		return more, err
	}
	if !ok {
		u.attempts.tried(s)
		return maintain, u.observeForeign(ctx, s)
	}
	end, err := u.releases.steps(ctx, s, u.upgradeStep)
	if err == nil {
		u.namespaces.applyMeta(ctx, s)
		s.disown()
	}
	return end, err
}

// upgradeStep goes on with one action by which a deployment is brought about. A failure
// is in s.failure afterwards.
func (u *upgrades) upgradeStep(ctx context.Context, s *snapshot, a release.Action) (ending, error) {
	if again, ok := renew(s, a); ok {
		a = again
	}
	switch a.Verb {
	case release.Keep:
		u.rest(s, a)
		return maintain, nil
	case release.Hold, release.Refuse:
		u.acts.decided(s, a)
		return maintain, u.holds.hold(ctx, s, a)
	}
	if s.bd == nil && !mayActAlone(s, a) {
		return maintain, nil
	}
	if err := u.releases.take(ctx, s, a); err != nil {
		return maintain, u.failures.note(ctx, s, err)
	}
	return more, nil
}

// mayActAlone reports whether a step can be taken without the manager: with a
// payload in the store, or one that needs none.
func mayActAlone(s *snapshot, a release.Action) bool {
	if a.Verb == release.Install || a.Verb == release.Upgrade {
		return s.known && s.rec.Chunks > 0
	}
	return s.known
}

// rest notes that the release is as it should be, or cannot be.
func (u *upgrades) rest(s *snapshot, a release.Action) {
	if a.Reason == release.ReasonSettled {
		u.attempts.failedBefore(s)
		return
	}
	u.attempts.tried(s)
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
	s.wanted.Applied, s.wanted.Reported = s.spec.DeploymentID, s.spec.DeploymentID
}

// observeForeign observes the release of a deployment that may not go to its namespace.
// It forgets what it observed of a release that this agent did not make.
func (u *upgrades) observeForeign(ctx context.Context, s *snapshot) error {
	if err := u.releases.observe(ctx, s); err != nil {
		return err
	}
	if s.observed.Memory.Owner != s.wanted.Self {
		s.observed = release.Observed{ID: s.wanted.ID, State: release.Absent}
	}
	s.disown()
	return nil
}
