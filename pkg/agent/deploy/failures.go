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

// failures note why an attempt has failed, and when the next one is due.
type failures struct {
	releases *releases
	records  records
	attempts *attempts
	sharing  *sharing
	log      *failureLog
}

// note notes the failure of an attempt. A permanent failure is kept in the store, so
// that the attempt is not repeated; others are repeated with a growing delay.
func (f *failures) note(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	reason := reconcile.ReasonOf(err)
	failure := report.Failure{Reason: reason, Message: err.Error(), Permanent: reconcile.IsTerminal(err), Waiting: reconcile.IsRequeue(err)}
	var wait *reconcile.RequeueAfter
	var back *setback
	switch {
	case errors.As(err, &back):
		failure.Waiting = false
		s.again(min(f.attempts.failed(s), back.within))
	case failure.Permanent:
		f.attempts.gaveUp(s, &store.Failure{ID: s.spec.DeploymentID, Reason: reason, Message: failure.Message})
	case reason == release.ReasonSharedObject:
		left := f.sharing.graceLeft(s)
		failure.Waiting = left > 0
		s.again(min(f.attempts.failed(s), sharedDelay))
		s.again(left) // or the wait would count as none up to sharedDelay too late
	case errors.As(err, &wait) && madeOnCluster(reason):
		failure.Waiting = reason == release.ReasonNoValues // of the others the reference says ErrApplied, too
		s.again(min(f.attempts.failed(s), bringDelay))
	case errors.As(err, &wait) && !needsChange(reason):
		f.attempts.tried(s)
		s.again(wait.After)
	default:
		failure.Waiting = false
		s.again(f.attempts.failed(s))
	}
	s.fail(failure)
	f.log.log(s, reason, failure.Message)
	if !failure.Permanent {
		return f.forgetPermanent(ctx, s)
	}
	return f.releases.observe(ctx, s)
}

// forgetPermanent removes a permanent failure from the record, where another attempt has
// failed for a reason that may pass by itself.
func (f *failures) forgetPermanent(ctx context.Context, s *snapshot) error {
	if s.rec.Failed == nil || s.rec.Failed.ID != s.spec.DeploymentID {
		return nil
	}
	s.rec.Failed = nil
	return f.records.save(ctx, s)
}

// needsChange reports whether a wait is reported as a failure: only a change by another
// person or program helps, but no watch reports that to the agent.
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

// madeOnCluster reports whether a wait is for an object that a user makes or mends in
// the agent's cluster. The agent does not watch these objects, so it looks again.
func madeOnCluster(reason string) bool {
	return reason == release.ReasonNoValues || reason == release.ReasonNoNamespace || reason == release.ReasonBadValues
}

// backOff is the delay after a number of failures in a row.
func backOff(attempts int) time.Duration {
	d := firstDelay
	for range attempts - 1 {
		if d *= 2; d >= lastDelay {
			return lastDelay
		}
	}
	return d
}
