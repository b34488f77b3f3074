package publish

import (
	"context"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

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
