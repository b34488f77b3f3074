package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// judgeDelay is after which time a deployment that waits for the manager's list to be
// judged asks again.
const judgeDelay = 200 * time.Millisecond

// Reconcile brings one deployment to the desired state.
//
//  1. gather:   the BundleDeployment, the record, the other deployments
//  2. steps:    observe the release, decide one step, take it, and so on
//  3. maintain: look at the live objects, and revert what others changed
//  4. finish:   write the status, once
//
// It may run at any time and any number of times. A deployment that the manager no
// longer has is kept as it is.
func (r *Reconciler) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if err := r.deletions.keep(ctx, key.Name); err != nil {
		return kube.Done, err
	}
	s, ok := r.gather(key.Name)
	if !ok {
		r.memory.forget(key.Name)
		return kube.Done, nil
	}
	defer r.drift.Begin(s.name)()
	if r.guard.MustWait(s.request()) {
		return kube.Result{After: judgeDelay}, nil
	}
	if err := r.deletions.keepAbsence(ctx, s); err != nil {
		return kube.Done, err
	}
	proceed := r.deployRelease
	if s.wanted.Order != "" {
		proceed = r.withdrawals.withdraw
	}
	end, err := proceed(ctx, s)
	switch {
	case end == over:
		return kube.Result{After: s.after}, err
	case err != nil || ctx.Err() != nil:
		return kube.Done, err
	}
	return r.maintain(ctx, s)
}

// maintain looks at the live objects of a release, reverts what others changed, and
// reports.
func (r *Reconciler) maintain(ctx context.Context, s *snapshot) (kube.Result, error) {
	objects, err := r.drift.Inspect(ctx, s.live())
	if err == nil && !s.frozen {
		objects, err = r.correct(ctx, s, objects)
	}
	if err != nil && !reconcile.IsTerminal(err) {
		return kube.Done, err // the cluster's API is away; what was reported stays
	}
	return r.finish(ctx, s, objects, err)
}

// correct reverts what others changed, and notes how that went.
func (r *Reconciler) correct(ctx context.Context, s *snapshot, objects []report.Object) ([]report.Object, error) {
	before := *s // whose Helm values are hidden in what is reported
	out, err := r.drift.Correct(ctx, s.live(), objects)
	if out.Attempt != nil {
		r.acts.corrected(&before, *out.Attempt)
	}
	if out.Failure != "" {
		s.correction = out.Failure
	}
	s.contested = out.Contested
	s.again(out.After)
	return out.Objects, err
}

// deployRelease takes the steps that bring a deployment about, where it may go to its
// namespace. If it may not, deployRelease only observes what runs.
func (r *Reconciler) deployRelease(ctx context.Context, s *snapshot) (ending, error) {
	if s.wanted.Paused || s.spec.DeploymentID == "" {
		r.drift.Ignore(s.name)
		return over, nil
	}
	ok, err := r.namespaces.allowed(s)
	if err != nil {
		return more, err
	}
	if !ok {
		r.attempts.tried(s)
		return maintain, r.observeForeign(ctx, s)
	}
	end, err := r.releases.steps(ctx, s, r.deployStep)
	if err == nil {
		r.namespaces.applyMeta(ctx, s)
		s.disown()
	}
	return end, err
}

// observeForeign observes the release of a deployment that may not go to its namespace.
// It forgets what it observed of a release that this agent did not make.
func (r *Reconciler) observeForeign(ctx context.Context, s *snapshot) (err error) {
	if s.observed, err = r.cfg.Helm.Observe(ctx, s.wanted.ID); err != nil {
		return err
	}
	if s.observed.Memory.Owner != s.wanted.Self {
		s.observed = release.Observed{ID: s.wanted.ID, State: release.Absent}
	}
	s.disown()
	return nil
}

// deployStep goes on with one action by which a deployment is brought about. A failure
// is in s.failure afterwards.
func (r *Reconciler) deployStep(ctx context.Context, s *snapshot, a release.Action) (ending, error) {
	if again, ok := renew(s, a); ok {
		a = again
	}
	switch a.Verb {
	case release.Keep:
		r.rest(s, a)
		return maintain, nil
	case release.Hold, release.Refuse:
		r.acts.decided(s, a)
		return maintain, r.holds.hold(ctx, s, a)
	}
	if s.bd == nil && !mayActAlone(s, a) {
		return maintain, nil
	}
	if err := r.releases.take(ctx, s, a); err != nil {
		return maintain, r.failed(ctx, s, err)
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
func (r *Reconciler) rest(s *snapshot, a release.Action) {
	if a.Reason == release.ReasonSettled {
		r.attempts.failedBefore(s)
		return
	}
	r.attempts.tried(s)
	s.rec.Applied, s.rec.Failed, s.rec.Chunks = s.spec.DeploymentID, nil, 0
	s.wanted.Applied, s.wanted.Reported = s.spec.DeploymentID, s.spec.DeploymentID
}

// isBehind reports whether an action is one of waiting for a manager to catch up.
func isBehind(a release.Action) bool { return a.Reason == release.ReasonManagerBehind }

// failed notes the failure of an attempt. A permanent failure is kept in the store, so
// that the attempt is not repeated; others are repeated with a growing delay.
func (r *Reconciler) failed(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	reason := reconcile.ReasonOf(err)
	f := report.Failure{Reason: reason, Message: err.Error(), Permanent: reconcile.IsTerminal(err), Waiting: reconcile.IsRequeue(err)}
	var wait *reconcile.RequeueAfter
	var back *setback
	switch {
	case errors.As(err, &back):
		f.Waiting = false
		s.again(min(r.attempts.failed(s), back.within))
	case f.Permanent:
		r.attempts.gaveUp(s, &store.Failure{ID: s.spec.DeploymentID, Reason: reason, Message: f.Message})
	case reason == release.ReasonSharedObject:
		left := r.sharing.graceLeft(s)
		f.Waiting = left > 0
		s.again(min(r.attempts.failed(s), sharedDelay))
		s.again(left) // or the wait would count as none up to sharedDelay too late
	case errors.As(err, &wait) && madeOnCluster(reason):
		f.Waiting = reason == release.ReasonNoValues // of the others the reference says ErrApplied, too
		s.again(min(r.attempts.failed(s), bringDelay))
	case errors.As(err, &wait) && !needsChange(reason):
		r.attempts.tried(s)
		s.again(wait.After)
	default:
		f.Waiting = false
		s.again(r.attempts.failed(s))
	}
	s.fail(f)
	r.failures.log(s, reason, f.Message)
	if !f.Permanent {
		return r.forgetFailure(ctx, s)
	}
	var observeErr error
	s.observed, observeErr = r.cfg.Helm.Observe(ctx, s.wanted.ID)
	return observeErr
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

// Delays of attempts that failed.
const (
	refusedDelay = time.Minute
	bringDelay   = time.Minute
	firstDelay   = 2 * time.Second
	lastDelay    = 5 * time.Minute
)

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

// finish keeps and reports the outcome of a run. blind says why the objects cannot be
// looked at.
func (r *Reconciler) finish(ctx context.Context, s *snapshot, objects []report.Object, blind error) (kube.Result, error) {
	f := report.Found{
		Objects: objects, Failure: s.failure, Correction: s.correction, Contested: s.contested,
		DownstreamGeneration: s.rec.Carried, Awaited: r.sharing.awaited(s),
	}
	if s.observed.Good > 0 {
		f.ID = s.running()
		f.Release = fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Good)
	}
	if blind != nil {
		f.Blind = blind.Error()
		s.again(refusedDelay) // it may be a right that is missing
	}
	r.acts.outcome(s, f)
	r.dependencies.note(s, f)
	var errs []error
	if s.session != nil && s.bd != nil {
		if s.accepted() && s.rec.UID != s.bd.UID { // or a restart would take what the manager says next for the first it says
			errs = append(errs, r.records.save(ctx, s))
		}
		errs = append(errs, writeStatus(ctx, r.status, s, f))
		enqueueSiblings(s.session, s.bd, withdrawn, r.enqueue)
	} else {
		r.status.Remember(s.report(f))
	}
	if s.accepted() {
		errs = append(errs, r.copies.tidy(ctx, s), r.records.save(ctx, s), r.withdrawals.removeFormer(ctx, s))
	}
	s.again(r.drift.Next(s.name))
	return kube.Result{After: s.after}, errors.Join(errs...)
}

// writeStatus writes the status of a deployment that the manager has.
func writeStatus(ctx context.Context, w *statuswriter.Writer, s *snapshot, f report.Found) error {
	after, err := w.Write(ctx, s.session.statuses(), s.report(f))
	s.again(after)
	return err
}

// withdrawn reports whether a deployment is withdrawn. Others may have waited for that.
func withdrawn(bd *fleet.BundleDeployment) bool {
	return bd.Annotations[fleet.AnnotationWithdrawn] != ""
}

// accepted reports whether the desired version was accepted: it runs, or it has failed
// permanently.
func (s *snapshot) accepted() bool {
	id := s.spec.DeploymentID
	return id != "" && s.failure == nil && s.rec.Applied == id || s.rec.Failed != nil && s.rec.Failed.ID == id
}

// running is the deployment id of what runs.
func (s *snapshot) running() string { return s.wanted.Running(s.observed) }
