package publish

import (
	"context"
	"errors"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// removeScans deletes the ImageScans that the owner of a set does not yield any more, and
// only those.
func (p *Publisher) removeScans(ctx context.Context, o Order, set bundle.Set) error {
	if !o.Scans {
		return nil
	}
	present, err := p.scans.List(ctx, o.Namespace, fleet.LabelRepoName+"="+o.Owner)
	if err != nil {
		return kube.IgnoreGone(err)
	}
	for _, s := range gitrepo.LeftoverScans(set, present, o.Owner) {
		if why := p.cfg.Suspended(); why != "" {
			return reconcile.RequeueError(fleet.ReasonSuspended, 0, errors.New(why))
		}
		if err := p.scans.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
			return err
		}
		logEvent(o.Log, s.Name, "no longer in the repository", "image scan removed")
	}
	return nil
}

// RemoveScans deletes the ImageScans that a GitRepo has yielded: it is deleted.
func (p *Publisher) RemoveScans(ctx context.Context, namespace, repo string) error {
	present, err := p.scans.List(ctx, namespace, fleet.LabelRepoName+"="+repo)
	if err != nil {
		return kube.IgnoreGone(err)
	}
	for _, s := range gitrepo.LeftoverScans(bundle.Set{}, present, repo) {
		if err := p.scans.Delete(ctx, kube.KeyOf(s), kube.Exactly(s)); err != nil {
			return err
		}
	}
	return nil
}

// writeScans writes the ImageScans of bundles, if there are any. One that is
// refused is a finding.
func (p *Publisher) writeScans(ctx context.Context, o Order, set bundle.Set, done *Done) error {
	if !slices.ContainsFunc(set.Results, func(r bundle.Result) bool { return len(r.Scans) > 0 }) {
		return nil
	}
	present, err := p.scans.List(ctx, o.Namespace, "")
	if err != nil {
		return err
	}
	for _, s := range gitrepo.PlanScans(set, present) {
		if s.Old == nil {
			_, err = p.scans.Create(ctx, s.New)
		} else {
			_, err = p.scans.Patch(ctx, s.Old, s.New)
		}
		switch {
		case kube.IsInvalid(err):
			done.Findings = append(done.Findings, finding.Finding{
				Path: s.New.Name, Severity: finding.Error, Rule: finding.RuleValue, Message: "image scan: " + err.Error(),
			})
		case kube.IsTerminating(err):
			return terminatingError(o.Namespace)
		case err != nil:
			return err
		default:
			logEvent(o.Log, s.New.Name, "its image scan is new or has changed", "image scan written")
		}
	}
	return nil
}
