package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// reports keep and report the outcome of each run, and enqueue the deployments that have
// waited for it.
type reports struct {
	status       *statuswriter.Writer
	records      records
	copies       *copies
	former       *formerReleases
	dependencies *dependencies
	sharing      *sharing
	acts         *stepReporter
	enqueue      func(name string)
}

// reportOutcome stores and reports the result of a run. blind is why the live objects
// could not be read; nil: they were read.
func (r *reports) reportOutcome(ctx context.Context, s *snapshot, objects []report.Object, blind error) error {
	f := report.Found{
		Objects: objects, Failure: s.failure, Correction: s.correction, Contested: s.contested,
		DownstreamGeneration: s.rec.Carried, Awaited: r.sharing.uniquelyAwaited(s),
	}
	if s.observed.Good > 0 {
		f.ID = s.runningID()
		f.Release = fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Good)
	}
	if blind != nil {
		f.Blind = blind.Error()
		s.requeueAfter(refusedDelay) // a right may be missing
	}
	r.acts.setState(s, f)
	r.dependencies.setState(s, f)
	var errs []error
	if s.session != nil && s.bd != nil {
		if s.accepted() && s.rec.UID != s.bd.UID { // otherwise the agent would not recognize an old request after a restart
			errs = append(errs, r.records.save(ctx, s))
		}
		errs = append(errs, writeStatus(ctx, r.status, s, f))
		enqueueSiblings(s.session, s.bd, withdrawn, r.enqueue)
	} else {
		r.status.Remember(s.report(f))
	}
	if s.accepted() {
		errs = append(errs, r.copies.deleteUnnamed(ctx, s), r.records.save(ctx, s), r.former.remove(ctx, s))
	}
	return errors.Join(errs...)
}

// writeStatus writes the status of a deployment that the manager has.
func writeStatus(ctx context.Context, w *statuswriter.Writer, s *snapshot, f report.Found) error {
	after, err := w.Write(ctx, s.session.statuses(), s.report(f))
	s.requeueAfter(after)
	return err
}

// withdrawn reports whether the status says that a deployment is withdrawn.
func withdrawn(bd *fleet.BundleDeployment) bool {
	return bd.Annotations[fleet.AnnotationWithdrawn] != ""
}

// accepted reports whether the desired version was accepted: it runs, or has failed
// permanently.
func (s *snapshot) accepted() bool {
	id := s.spec.DeploymentID
	return id != "" && s.failure == nil && s.rec.Applied == id || s.rec.Failed != nil && s.rec.Failed.ID == id
}

// runningID returns the deployment id of the version that runs.
func (s *snapshot) runningID() string { return s.wanted.Running(s.observed) }
