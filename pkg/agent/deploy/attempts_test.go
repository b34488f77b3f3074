package deploy

import (
	"errors"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A failure because of somebody else's object stays one for good in the status, and is tried
// again with a growing delay: nobody tells the agent that the object is gone. Every other
// failure for good is not tried again.
func TestRetryOfNotOwned(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC)
	cases := map[string]struct {
		reason   string
		attempts int // that failed before
		delay    time.Duration
	}{
		"First":   {release.ReasonNotOwned, 0, firstDelay},
		"Third":   {release.ReasonNotOwned, 2, 4 * firstDelay},
		"Many":    {release.ReasonNotOwned, 30, lastDelay},
		"Invalid": {release.ReasonInvalidObject, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			attempts := newAttempts(func() time.Time { return now })
			u := &upgrades{attempts: attempts}
			at := func(later time.Duration) *snapshot {
				s := &snapshot{name: "web", bd: &fleet.BundleDeployment{}}
				s.spec.DeploymentID, s.rec.Chunks = "x:y", 1
				s.rec.Failed = &store.Failure{ID: "x:y", Reason: c.reason, Message: "x"}
				now = now.Add(later)
				return s
			}
			s := at(0)
			attempts.attemptOf("web").failed = c.attempts
			attempts.setPermanentFailure(s, s.rec.Failed)
			if s.after != c.delay {
				t.Errorf("want another attempt after %s, got %s", c.delay, s.after)
			}
			early := at(c.delay / 2)
			u.upgradeDone(early, release.Action{Verb: release.Keep, Reason: release.ReasonSettled})
			if f := early.failure; f == nil || !f.Permanent || f.Reason != c.reason {
				t.Errorf("want the same failure for good, got %+v", f)
			}
			if early.after != c.delay/2 || attempts.retryDue(early) {
				t.Errorf("want a look after %s and no attempt before, got %s and %t", c.delay/2, early.after, attempts.retryDue(early))
			}
			late := at(c.delay / 2)
			if got := attempts.retryDue(late); got != (c.delay > 0) {
				t.Errorf("tried again when it is due: %t", got)
			}
			late.bd = nil
			if attempts.retryDue(late) {
				t.Error("tried again without the manager")
			}
		})
	}
}

// An attempt that fails for a reason that may pass by itself takes the place of the failure
// for good.
func TestRetryOfNotOwnedFailsOtherwise(t *testing.T) {
	f := newFailures(time.Now)
	s := &snapshot{name: "web"}
	s.spec.DeploymentID = "x:y"
	if err := f.handleFailure(t.Context(), s, reconcile.RequeueError(release.ReasonForbidden, 1, errors.New("x"))); err != nil {
		t.Fatal(err)
	}
	if s.failure.Permanent || s.failure.Reason != release.ReasonForbidden || s.rec.Failed != nil {
		t.Errorf("got %+v and %+v", *s.failure, s.rec.Failed)
	}
}
