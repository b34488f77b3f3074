package deploy

import (
	"context"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// judgeDelay is after which time a deployment that waits for the manager's list to be
// judged asks again.
const judgeDelay = 200 * time.Millisecond

// A reconciler works on one deployment at a time: it knows the order of a run.
type reconciler struct {
	snapshots   *snapshots
	deletions   *deletions
	guard       *restoreguard.Guard
	upgrades    *upgrades
	withdrawals *withdrawals
	drift       *drift.Monitor
	acts        *stepReporter
	reports     *reports
	memory      memory
}

// Reconcile brings one deployment to the desired state.
//
//  1. gather:   the BundleDeployment, the record, the other deployments
//  2. steps:    observe the release, decide one step, take it, and so on
//  3. maintain: look at the live objects, and revert what others changed
//  4. finish:   write the status, once
//
// It may run at any time and any number of times. A deployment that the manager no
// longer has is kept as it is.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	if err := r.deletions.recordOrder(ctx, key.Name); err != nil {
		return kube.Done, err
	}
	s, ok := r.snapshots.gather(key.Name)
	if !ok {
		r.memory.forget(key.Name)
		return kube.Done, nil
	}
	defer r.drift.Begin(s.name)()
	if r.guard.MustWait(s.request()) {
		return kube.Result{After: judgeDelay}, nil
	}
	if err := r.deletions.recordAbsence(ctx, s); err != nil {
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
func (r *reconciler) maintain(ctx context.Context, s *snapshot) (kube.Result, error) {
	objects, err := r.drift.Inspect(ctx, s.live())
	if err == nil && !s.frozen {
		objects, err = r.correct(ctx, s, objects)
	}
	if err != nil && !reconcile.IsTerminal(err) {
		return kube.Done, err // the cluster's API server does not answer; the status stays
	}
	err = r.reports.reportOutcome(ctx, s, objects, err)
	s.requeueAfter(r.drift.Next(s.name))
	return kube.Result{After: s.after}, err
}

// correct reverts changes of other clients, and records the result.
func (r *reconciler) correct(ctx context.Context, s *snapshot, objects []report.Object) ([]report.Object, error) {
	before := *s // whose Helm values are hidden in what is reported
	out, err := r.drift.Correct(ctx, s.live(), objects)
	if out.Attempt != nil {
		r.acts.driftCorrected(&before, *out.Attempt)
	}
	if out.Failure != "" {
		s.correction = out.Failure
	}
	s.contested = out.Contested
	s.requeueAfter(out.After)
	return out.Objects, err
}
