package bundle

import (
	"context"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// lateRetry is when templates are tried again that took too long.
const lateRetry = time.Minute

// A work is a decision that is being carried out. It takes one run of the loop for each
// slice, and is decided once: deciding costs time for every cluster, not only for those
// that are left.
type work struct {
	*snapshot
	*decision
	resumed  bool
	turn     *batchTurn // nil before the first
	creating batch      // of which so many are under way
}

// carryOut writes a slice of a decision, and leaves the rest to later runs. Withdrawals
// come last.
func (e *Engine) carryOut(ctx context.Context, w *work) (kube.Result, error) {
	rest, err := e.apply(ctx, w)
	if reconcile.IsTerminal(err) {
		w.plan.Problem = problemOf(err)
	}
	w.plan.Complete = err == nil && !rest && !reconcile.IsRequeue(w.compiledErr)
	if !w.resumed || !rest || w.delta {
		e.enqueue(e.table.SetPlan(w.key, w.plan))
		w.delta = false
	}
	switch {
	case err != nil:
		return kube.Done, err
	case rest:
		e.leaveOff(w)
		return again, nil
	case w.resumed:
		return again, nil // what has come meanwhile was not looked at
	case reconcile.IsRequeue(w.compiledErr):
		return kube.Result{After: valuesRetry}, nil
	}
	e.release(w.key)
	next, err := e.withdraw(ctx, w.snapshot, w.decision)
	if w.late {
		next.After = sooner(next.After, lateRetry)
	}
	return next, err
}

// leaveOff keeps the rest of a decision for the next run. A decision that takes
// deployments down within limits is made again instead, since every report may change
// it.
func (e *Engine) leaveOff(w *work) {
	if w.costs {
		return
	}
	w.resumed = true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unfinished[w.key] = w
}

// resume returns the rest of a decision, unless its Bundle (nil: it is gone), any
// cluster, or the permission to write has changed. It waits for the writes under way of
// a decision that it drops.
func (e *Engine) resume(key kube.Key, b *fleet.Bundle) *work {
	e.mu.Lock()
	w, entry := e.unfinished[key], e.kits[key]
	delete(e.unfinished, key)
	e.mu.Unlock()
	if w == nil {
		return nil
	}
	if b != nil && b.DeletionTimestamp == nil && entry != nil && entry.compiled == w.compiled && fits(w.compiled, b) && e.table.Moves() == w.moves && e.sources.same(key.Namespace, w.sources) {
		if hold, _ := e.held(key.Namespace); hold == w.hold {
			return w
		}
	}
	w.turn.wg.Wait()
	return nil
}
