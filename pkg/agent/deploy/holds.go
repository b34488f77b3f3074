package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// holds note that a deployment waits, or is refused.
type holds struct {
	attempts *attempts
	guard    *restoreguard.Guard
	records  records
}

// hold waits, and says for what.
func (h *holds) hold(ctx context.Context, s *snapshot, a release.Action) error {
	h.attempts.tried(s)
	s.fail(report.Failure{Reason: a.Reason, Message: a.Message, Permanent: a.Verb == release.Refuse, Waiting: a.Verb == release.Hold})
	if a.Verb == release.Refuse {
		s.again(refusedDelay)
		return nil
	}
	s.again(a.After)
	if isBehind(a) {
		return h.request(ctx, s)
	}
	return nil
}

// request notes how long what the manager asks for is held.
func (h *holds) request(ctx context.Context, s *snapshot) error {
	save := h.guard.Hold(s.request())
	s.again(restoreguard.HoldStep)
	if !save {
		return nil
	}
	return h.records.Save(ctx, s.rec)
}

// isBehind reports whether an action is one of waiting for a manager to catch up.
func isBehind(a release.Action) bool { return a.Reason == release.ReasonManagerBehind }
