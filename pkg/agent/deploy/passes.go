package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// A permanent failure that release.Passes stays in the status like the others, so that users
// see that they have to act. The agent retries it as often as one that may pass by itself.

// gaveUp notes a permanent failure. The payload is kept for another attempt.
func (r *Reconciler) gaveUp(s *snapshot, f *store.Failure) {
	s.rec.Failed = f
	if !release.Passes(f.Reason) {
		r.tried(s, 0)
		s.rec.Chunks = 0
		return
	}
	r.tried(s, s.state.attempts+1)
	delay := backOff(s.state.attempts)
	s.state.next = r.cfg.Now().Add(delay)
	s.again(delay)
}

// failedBefore reports the permanent failure of an earlier run.
func (r *Reconciler) failedBefore(s *snapshot) {
	f := s.rec.Failed
	if f == nil || !release.Passes(f.Reason) {
		r.tried(s, 0)
	} else {
		r.tried(s, s.state.attempts)
		s.again(s.state.next.Sub(r.cfg.Now()))
	}
	if f != nil {
		s.fail(report.Failure{Reason: f.Reason, Message: f.Message, Permanent: true})
	}
}

// triesAgain reports whether another attempt is due although the last one has failed
// permanently. After a start of the agent it is.
func (r *Reconciler) triesAgain(s *snapshot) bool {
	f := s.rec.Failed
	return s.bd != nil && f != nil && f.ID == s.spec.DeploymentID && release.Passes(f.Reason) && !r.cfg.Now().Before(s.state.next)
}

// forgetFailure removes a permanent failure from the record, where another attempt has
// failed for a reason that may pass by itself.
func (r *Reconciler) forgetFailure(ctx context.Context, s *snapshot) error {
	if s.rec.Failed == nil || s.rec.Failed.ID != s.spec.DeploymentID {
		return nil
	}
	s.rec.Failed = nil
	return r.records.save(ctx, s)
}
