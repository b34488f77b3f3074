package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
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
	proceed := r.upgrades.upgrade
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
		errs = append(errs, r.copies.tidy(ctx, s), r.records.save(ctx, s), r.former.remove(ctx, s))
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
