package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	helmrelease "helm.sh/helm/v3/pkg/release"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Correct undoes what others changed on the objects of a release: it rolls the
// release back to the revision that is deployed. A release without such a
// revision is left alone.
//
// A correction that fails leaves the release as it was; the failed revision is
// removed unless how.KeepFailHistory says otherwise.
func (c *Client) Correct(ctx context.Context, id release.ID, how fleet.CorrectDrift, history int) error {
	list, err := c.records(ctx, id)
	if err != nil {
		return err
	}
	good, ok := goodOf(list)
	if !ok {
		return nil
	}
	who, err := c.account(ctx, good.Chart.Metadata.Annotations[fleet.ReleaseServiceAccount])
	if err != nil {
		return err
	}
	cfg, err := c.configuration(ctx, who, c.engine(who, id))
	if err != nil {
		return err
	}
	back := action.NewRollback(cfg)
	back.Version, back.Force, back.Timeout = good.Version, how.Force, defaultTimeout
	back.MaxHistory = defaultHistory
	if history > 0 {
		back.MaxHistory = history
	}
	err = wait(ctx, func() error { return c.withoutValues(ctx, classify(back.Run(id.Name)), good) })
	if err != nil && ctx.Err() == nil {
		if cleanErr := c.undoCorrection(ctx, id, good.Version, how.KeepFailHistory); cleanErr != nil {
			return fmt.Errorf("%w; then: %w", err, cleanErr)
		}
	}
	return err
}

// goodOf is the newest revision that is deployed.
func goodOf(list []record) (record, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].readable && list[i].Info.Status == release.Deployed {
			return list[i], true
		}
	}
	return record{}, false
}

// undoCorrection makes good the deployed revision again, which Helm does not
// do, and removes the one that failed.
func (c *Client) undoCorrection(ctx context.Context, id release.ID, good int, keep bool) error {
	err := c.rewrite(ctx, id, good, func(r *helmrelease.Release) { r.Info.Status = helmrelease.StatusDeployed })
	if err != nil {
		return err
	}
	return c.removeRecords(ctx, id, func(r record) bool {
		return !keep && r.Version > good && (r.Info.Status == release.Failed || r.Info.Status == release.PendingRollback)
	})
}
