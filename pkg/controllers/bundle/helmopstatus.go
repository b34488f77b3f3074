package bundle

import (
	"context"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// reportHelmOp writes the summary in the status of a HelmOp. It does not report Ready while
// the current version of the HelmOp's Bundle was not planned.
func (sc *statusController) reportHelmOp(ctx context.Context, key kube.Key) (int, error) {
	op, found := sc.cache.helmOps.Get(key)
	if !found || op.DeletionTimestamp != nil {
		return 0, nil
	}
	sources, fresh, ok := sc.table.HelmOpFacts(key)
	if !ok {
		return 0, nil
	}
	status := summary.HelmOpStatus(op, sources, sc.now())
	if !fresh && condition.IsTrue(status.Conditions, fleet.ConditionReady) && !condition.IsTrue(op.Status.Conditions, fleet.ConditionReady) {
		return 0, nil
	}
	changed := *op
	changed.Status = status
	got, size, err := sc.helmOps.write(ctx, op, &changed)
	if size == 0 {
		return 0, err
	}
	sc.warn(got, newlyUnrendered(op.Status.Conditions, status.Conditions))
	return size, nil
}

// onHelmOp enqueues a HelmOp after a change: its other manager may have written the status.
func (e *eventHandlers) onHelmOp(old, changed *fleet.HelmOp) {
	if changed == nil {
		e.status[fleetstate.KindHelmOp].forget(kube.KeyOf(old))
		return
	}
	e.status[fleetstate.KindHelmOp].enqueue(kube.KeyOf(changed), true)
}

// enqueueHelmOp enqueues the HelmOp of a Bundle whose state has changed; it has the
// Bundle's name.
func (bs *base) enqueueHelmOp(bundle kube.Key, final bool) {
	if _, ok := bs.cache.helmOps.Get(bundle); ok {
		bs.status[fleetstate.KindHelmOp].enqueue(bundle, final)
	}
}
