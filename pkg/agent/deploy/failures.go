package deploy

import (
	"context"
	"errors"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// Delays of attempts that failed.
const (
	refusedDelay = time.Minute
	bringDelay   = time.Minute
	firstDelay   = 2 * time.Second
	lastDelay    = 5 * time.Minute
)

// failures record why a try has failed, and when the next one is due.
type failures struct {
	releases *releases
	records  records
	attempts *attempts
	sharing  *sharing
	log      *failureLog
}

// handleFailure records the failure of a try. A permanent failure is stored, so that
// the agent does not repeat the try. Other tries are repeated with a growing delay.
func (f *failures) handleFailure(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	reason := reconcile.ReasonOf(err)
	failure := report.Failure{Reason: reason, Message: err.Error(), Permanent: reconcile.IsTerminal(err), Waiting: reconcile.IsRequeue(err)}
	var wait *reconcile.RequeueAfter
	var back *reportedRetry
	switch {
	case errors.As(err, &back):
		failure.Waiting = false
		s.requeueAfter(min(f.attempts.addFailure(s), back.within))
	case failure.Permanent:
		f.attempts.setPermanentFailure(s, &store.Failure{ID: s.spec.DeploymentID, Reason: reason, Message: failure.Message})
	case reason == release.ReasonSharedObject:
		left := f.sharing.graceLeft(s)
		failure.Waiting = left > 0
		s.requeueAfter(min(f.attempts.addFailure(s), sharedDelay))
		s.requeueAfter(left) // otherwise the status would change up to sharedDelay too late
	case errors.As(err, &wait) && madeOnCluster(reason):
		failure.Waiting = reason == release.ReasonNoValues // rancher/fleet reports ErrApplied for all other waits, too
		s.requeueAfter(min(f.attempts.addFailure(s), bringDelay))
	case errors.As(err, &wait) && !needsChange(reason):
		f.attempts.setTried(s)
		s.requeueAfter(wait.After)
	default:
		failure.Waiting = false
		s.requeueAfter(f.attempts.addFailure(s))
	}
	s.fail(failure)
	f.log.log(s, reason, failure.Message)
	if !failure.Permanent {
		return f.forgetPermanent(ctx, s)
	}
	return f.releases.observe(ctx, s)
}

// forgetPermanent removes a permanent failure from the record after a try has failed
// for a reason that may pass.
func (f *failures) forgetPermanent(ctx context.Context, s *snapshot) error {
	if s.rec.Failed == nil || s.rec.Failed.ID != s.spec.DeploymentID {
		return nil
	}
	s.rec.Failed = nil
	return f.records.save(ctx, s)
}

// needsChange reports whether a wait is reported as a failure: a user or another
// program must change something, and no watch shows that to the agent.
func needsChange(reason string) bool {
	switch reason {
	case release.ReasonForbidden, release.ReasonUnknownKind, release.ReasonNoAccount, release.ReasonBadValues:
		return true
	case oci.ReasonInvalidReference, oci.ReasonInvalidCredentials, oci.ReasonAuthenticationRefused, oci.ReasonCertificateRefused,
		oci.ReasonRedirected, oci.ReasonNotContent, oci.ReasonNotRegistry, oci.ReasonTooLarge:
		return true
	}
	return false
}

// madeOnCluster reports whether a wait is for an object that a user creates or repairs
// in the agent's cluster. The agent does not watch these objects, so it tries again.
func madeOnCluster(reason string) bool {
	return reason == release.ReasonNoValues || reason == release.ReasonNoNamespace || reason == release.ReasonBadValues
}

// backOff returns the delay after a number of failures in a row.
func backOff(attempts int) time.Duration {
	return reconcile.Backoff(firstDelay, lastDelay, attempts)
}
