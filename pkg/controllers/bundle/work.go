package bundle

import (
	"context"
	"time"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// lateRetry is when templates are tried again that took too long.
const lateRetry = time.Minute

// A work is a decision that is being written. Each reconciliation writes one time slice
// of it. The decision is made once, because it costs time for every cluster, not only
// for those that are left.
type work struct {
	*snapshot
	*decision
	resumed  bool
	turn     *batchTurn // nil before the first
	creating batch      // limits how many creations are in progress
}

// applyDecision writes one time slice of a decision, and stores the rest for later
// reconciliations. It orders withdrawals when everything else is written.
func (bc *bundleController) applyDecision(ctx context.Context, w *work) (kube.Result, error) {
	rest, err := bc.apply(ctx, w)
	if reconcile.IsTerminal(err) {
		w.plan.Problem = problemOf(err)
	}
	w.plan.Complete = err == nil && !rest && !reconcile.IsRequeue(w.compiledErr)
	if !w.resumed || !rest || w.delta {
		bc.enqueue(bc.table.SetPlan(w.key, w.plan))
		w.delta = false
	}
	switch {
	case err != nil:
		return kube.Done, err
	case rest:
		bc.pairs.saveWork(w)
		return again, nil
	case w.resumed:
		return again, nil // events of the meantime were not handled
	case reconcile.IsRequeue(w.compiledErr):
		return kube.Result{After: valuesRetry}, nil
	}
	bc.withdrawals.enqueueWaiting(w.key)
	next, err := bc.withdrawals.withdraw(ctx, w.snapshot, w.decision)
	if w.late {
		next = next.Sooner(lateRetry)
	}
	return next, err
}
