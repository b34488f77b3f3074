package deploy

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// holds report that a deployment waits for a restored manager, or is refused.
type holds struct {
	attempts *attempts
	guard    *restoreguard.Guard
	records  records
}

// reportHold reports that an action is held, and why.
func (h *holds) reportHold(ctx context.Context, s *snapshot, a release.Action) error {
	h.attempts.setTried(s)
	s.fail(report.Failure{Reason: a.Reason, Message: a.Message, Permanent: a.Verb == release.Refuse, Waiting: a.Verb == release.Hold})
	if a.Verb == release.Refuse {
		s.requeueAfter(refusedDelay)
		return nil
	}
	s.requeueAfter(a.After)
	if waitsForManager(a) {
		return h.measureHold(ctx, s)
	}
	return nil
}

// measureHold measures for how long the manager's request is held.
func (h *holds) measureHold(ctx context.Context, s *snapshot) error {
	save := h.guard.Hold(s.request())
	s.requeueAfter(restoreguard.HoldStep)
	if !save {
		return nil
	}
	return h.records.Save(ctx, s.rec)
}

// waitsForManager reports whether an action is to wait until a restored manager is up
// to date.
func waitsForManager(a release.Action) bool { return a.Reason == release.ReasonManagerBehind }
