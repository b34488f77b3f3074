package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// writeStatus writes the status of a deployment if its meaning differs from the present
// one. It delays a status that is expected to change soon, so that a deployment that
// becomes Ready quickly costs one write.
func (r *Reconciler) writeStatus(ctx context.Context, s *snapshot, f report.Found) error {
	now := r.cfg.Now()
	status := report.Status(s.bd, f, now)
	status.Conditions = report.Backdate(status.Conditions, s.bd.Status.Conditions, s.unreported(), now)
	if report.Same(status, s.bd.Status) {
		s.state.pending = time.Time{}
		r.settled(s, f, status)
		return nil
	}
	if report.Passing(status) {
		if s.state.pending.IsZero() {
			s.state.pending = now
		}
		since := s.state.pending
		if s.state.written.After(since) {
			since = s.state.written
		}
		if rest := window - now.Sub(since); rest > 0 {
			s.again(rest)
			return nil
		}
	}
	changed := s.bd.DeepCopy()
	changed.Status = status
	err := r.deliver(ctx, s, changed)
	switch {
	case err == nil:
		r.settled(s, f, status)
	case kube.IsAway(err), kube.IsDenied(err):
		r.remember(s, f)
	}
	return r.statusWritten(s, err)
}

// statusWritten judges the outcome of a status write. A manager that is away gets the
// status when it is back; an object that is gone needs none. A status that admission
// denies is an error in the words of the webhook.
func (r *Reconciler) statusWritten(s *snapshot, err error) error {
	switch {
	case err == nil:
		s.state.written, s.state.pending = r.cfg.Now(), time.Time{}
		return nil
	case kube.IsGone(err):
		return nil
	case kube.IsAway(err):
		if !s.session.away() {
			s.again(managerDelay)
		}
		return nil
	}
	return fmt.Errorf("report %q: %w", s.name, err)
}

// timeout begins a deployment, and returns the function that ends it. A deployment that
// takes longer than slowAfter sends one check-in, so that the manager does not take a
// busy agent for a silent one.
func (s *Session) timeout() (end func()) {
	if s == nil || s.CheckIn == nil {
		return func() {}
	}
	t := time.AfterFunc(slowAfter, s.CheckIn)
	return func() { t.Stop() }
}
