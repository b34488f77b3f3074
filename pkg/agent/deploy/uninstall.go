package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// withdrawals uninstall the deployments that the manager has ordered to withdraw.
type withdrawals struct {
	releases *releases
	cleanup  *cleanup
	holds    *holds
	guard    *restoreguard.Guard
	records  records
	status   *statuswriter.Writer
	attempts *attempts
	acts     *stepReporter
	removals *removalGate
	memory   memory
	link     *link
	log      *logrus.Entry
	now      func() time.Time
	enqueue  func(name string)
}

// cleanup removes what belongs to a withdrawn deployment besides its release.
type cleanup struct {
	former     *formerReleases
	copies     *copies
	namespaces *namespaces
}

// run uninstalls former releases, and deletes copies and the namespace. Former releases
// that have to wait are in the record afterwards.
func (c *cleanup) run(ctx context.Context, s *snapshot) error {
	if err := c.former.remove(ctx, s); err != nil {
		return err
	}
	if err := c.copies.withdraw(ctx, s); err != nil {
		return err
	}
	return c.namespaces.deleteNamespace(ctx, s)
}

// withdraw carries out an order to withdraw a deployment: it waits until other
// deployments of the repository were tried, uninstalls the release, and answers. It
// first holds an order that may be from before a restore of the manager.
func (w *withdrawals) withdraw(ctx context.Context, s *snapshot) (ending, error) {
	order := s.wanted.Order
	if w.link.suspended.Load() {
		return over, nil
	}
	w.guard.ObserveOrder(s.name, order)
	if s.bd != nil && report.Answered(s.bd, order) {
		return over, w.dropAll(ctx, s)
	}
	s.wanted.ID = installedRelease(s)
	return w.releases.steps(ctx, s, w.withdrawStep)
}

// withdrawStep handles one action of a withdrawal. An order from before a restore does
// not apply yet: the agent maintains the deployment, and reports what is held.
func (w *withdrawals) withdrawStep(ctx context.Context, s *snapshot, a release.Action) (ending, error) {
	switch {
	case a.Verb == release.Hold && waitsForManager(a):
		w.acts.decisionMade(s, a)
		return maintain, w.holds.reportHold(ctx, s, a)
	case a.Verb == release.Hold:
		w.acts.decisionMade(s, a)
		s.requeueAfter(a.After)
		return over, nil
	case a.Verb == release.Acknowledge:
		return over, w.acknowledge(ctx, s, a)
	case a.Verb == release.Uninstall && !w.removals.enter(s.name):
		s.requeueAfter(removalDelay)
		return over, nil
	}
	err := w.releases.runStep(ctx, s, a)
	if next := w.removals.leave(s.name); next != "" {
		w.enqueue(next)
	}
	if err != nil {
		return over, w.reportStuck(ctx, s, err)
	}
	return more, nil
}

// installedRelease returns the release in the record: the manager may have changed the
// options together with the order.
func installedRelease(s *snapshot) release.ID {
	if s.hasRecord && s.rec.Release != (release.ID{}) {
		return s.rec.Release
	}
	return s.wanted.ID
}

// acknowledge removes the records of a withdrawn deployment, and then answers the order
// in one write. The record is removed first: the manager may delete an answered
// BundleDeployment at any time, and a record without BundleDeployment would look like
// an orphan.
func (w *withdrawals) acknowledge(ctx context.Context, s *snapshot, a release.Action) error {
	if err := w.cleanup.run(ctx, s); err != nil {
		return w.reportStuck(ctx, s, err)
	}
	if len(s.rec.Former) > 0 {
		return nil // another bundle is about to take over the former release
	}
	if err := w.dropAll(ctx, s); err != nil {
		return err
	}
	w.guard.KeepVersion() // the deleted record held a version
	if s.bd == nil {
		w.releases.log(s, a).Info("withdrawal carried out")
		return nil
	}
	after, err := w.status.Answer(ctx, s.session.statuses(), s.bd, report.Withdrawn(s.bd, s.wanted.Order, a.Message, w.now()))
	if s.requeueAfter(after); err != nil || s.after > 0 {
		return err
	}
	enqueueSiblings(s.session, s.bd, anySibling, w.enqueue) // these may have lost objects to the withdrawn deployment
	w.releases.log(s, a).Info("withdrawal answered")
	w.acts.decisionMade(s, a)
	return nil
}

// dropAll removes all records of a deployment that is withdrawn.
func (w *withdrawals) dropAll(ctx context.Context, s *snapshot) error {
	w.memory.forget(s.name)
	for _, rec := range w.records.All() {
		if rec.Key.Name == s.name {
			if err := w.records.Drop(ctx, rec.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportStuck reports that a removal failed. It is tried again with a growing delay,
// until it succeeds or a user gives it up.
func (w *withdrawals) reportStuck(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	s.requeueAfter(w.attempts.addFailure(s))
	w.log.WithFields(logrus.Fields{
		"deployment": s.name, "action": string(release.Uninstall), "reason": reconcile.ReasonOf(err), "error": err.Error(),
	}).Warn("deployment not removed")
	if s.bd == nil {
		return nil
	}
	return writeStatus(ctx, w.status, s, report.Found{ // without an applied id the state is ErrApplied
		Release: fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Revision),
		Failure: &report.Failure{Reason: reconcile.ReasonOf(err), Message: "uninstall: " + err.Error()},
	})
}
