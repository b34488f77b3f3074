package drift

import (
	"context"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A LiveStatus is how one deployment is right now, as its own cluster shows it.
type LiveStatus struct {
	State     fleet.BundleState
	Since     time.Time // when the running revision was deployed; zero if none is
	Corrected bool      // that revision was a correction of drift
	Message   string    // the first problem
}

// Look returns the state of a deployment's live objects, without a manager. It changes
// nothing.
func Look(ctx context.Context, h *helm.Client, live *kube.Live, scope string, rec store.Record) (LiveStatus, error) {
	o, err := h.Observe(ctx, rec.Release)
	if err != nil {
		return LiveStatus{}, err
	}
	out := LiveStatus{State: fleet.WaitApplied, Since: o.Since}
	if rec.Failed != nil {
		out.State, out.Message = fleet.ErrApplied, rec.Failed.Message
		if release.Recorded(rec.Failed.Reason) {
			out.State = fleet.NotReady
		}
		return out, nil
	}
	if o.Good == 0 {
		return out, nil
	}
	out.Corrected = o.Rollback()
	if err := h.Complete(ctx, &o); err != nil {
		return out, err
	}
	objs, err := drift.Objects(o.Manifest)
	if err != nil {
		return out, err
	}
	for _, obj := range objs {
		if _, err := locate(ctx, live, obj, o.ID.Namespace); err != nil {
			return out, err
		}
	}
	by := rulesOf(rec.Spec.Options)
	set := naming.ObjectSetHash(naming.ObjectSetID(rec.Key.Name, scope))
	j := judgement{expected: drift.Expected{SetHash: set, Patches: by.patches}, ignored: by.ignored, hide: redactorOf(o, objs), kinds: live, now: time.Now}
	reader, err := ReaderOf(ctx, h, live, rec.Spec.Options.ServiceAccount)
	if err != nil {
		return out, err
	}
	found, err := j.readAndJudge(ctx, reader, objs)
	if err != nil {
		return out, err
	}
	return worstState(out, found), nil
}

// worstState sets the state of a LiveStatus to the worst of its objects.
func worstState(out LiveStatus, found []*seen) LiveStatus {
	out.State = fleet.Ready
	for _, s := range found {
		switch {
		case s.object.NonReady != nil && out.State != fleet.NotReady:
			out.State, out.Message = fleet.NotReady, summary.Readable(s.object.NonReady.String())
		case s.object.Modified != nil && out.State == fleet.Ready:
			out.State, out.Message = fleet.Modified, s.object.Modified.String()
		}
	}
	return out
}
