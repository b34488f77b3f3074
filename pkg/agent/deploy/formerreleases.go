package deploy

import (
	"context"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// orderRenamed is the order by which a release goes whose deployment has another
// one now.
const orderRenamed = "renamed"

// formerReleases uninstall releases that a deployment has made under another name or in
// another namespace.
type formerReleases struct {
	releases *releases
	records  records
	acts     *stepReporter
}

// remove uninstalls the former releases of a deployment when its new release exists.
// Those that have to wait stay in the record.
func (r *formerReleases) remove(ctx context.Context, s *snapshot) error {
	if len(s.rec.Former) == 0 || s.failure != nil {
		return nil
	}
	var left []release.ID
	for _, id := range s.rec.Former {
		if id == s.wanted.ID {
			continue
		}
		gone, err := r.withdraw(ctx, s, id)
		if err != nil {
			return fmt.Errorf("remove former release %s: %w", id, err)
		}
		if !gone {
			left = append(left, id)
		}
	}
	if s.rec.Former = left; len(left) == 0 {
		s.rec.Accounts = nil
	}
	return r.records.Save(ctx, s.rec)
}

// withdraw uninstalls a former release by the same steps as a withdrawal; false: it has
// to wait.
func (r *formerReleases) withdraw(ctx context.Context, s *snapshot, id release.ID) (gone bool, err error) {
	f := *s
	f.wanted.ID, f.wanted.Order = id, orderRenamed
	f.wanted.KeepResources, f.wanted.Abandon, f.wanted.Stale = false, false, false // an annotation in the release says whether objects are kept
	for _, o := range []*fleet.BundleDeploymentOptions{&f.spec.Options, &f.rec.Spec.Options} {
		if o.TargetNamespace != "" {
			o.TargetNamespace = id.Namespace // to which it was limited
		}
	}
	f.hasRecord, f.rec.Spec.Options.ServiceAccount = true, s.rec.Accounts[id.String()]
	_, err = r.releases.steps(ctx, &f, func(ctx context.Context, f *snapshot, a release.Action) (ending, error) {
		switch a.Verb {
		case release.Acknowledge:
			gone = true
			return over, nil
		case release.Hold:
			s.requeueAfter(a.After)
			return over, nil
		}
		if err := r.releases.takeStep(ctx, f, a); err != nil {
			return over, err
		}
		r.acts.report(s, Act{Verb: a.Verb, Result: OK, Reason: "Renamed", Message: fmt.Sprintf("the former release %s: %s", id, a.Message)})
		return more, nil
	})
	return gone, err
}

// appliedID returns the deployment id that the status reports as applied; empty after a
// failure.
func appliedID(bd *fleet.BundleDeployment) string {
	if bd == nil {
		return ""
	}
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionInstalled); c != nil && c.Status == "False" {
		return ""
	}
	return bd.Status.AppliedDeploymentID
}
