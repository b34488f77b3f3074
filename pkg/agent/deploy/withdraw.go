package deploy

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// withdraw carries out an order to remove a deployment: after the others of its
// repository were tried it uninstalls the release, and then answers. An order
// that may be from the past is held first.
func (r *Reconciler) withdraw(ctx context.Context, s *snapshot) (ending, error) {
	order := s.wanted.Order
	if r.suspended.Load() {
		return over, nil
	}
	r.guard.Ordered(s.name, order)
	if s.bd != nil && report.Answered(s.bd, order) {
		return over, r.dropAll(ctx, s)
	}
	s.wanted.ID = installed(s)
	return r.releases.steps(ctx, s, r.withdrawStep)
}

// withdrawStep goes on with one action by which a release is withdrawn. An order from
// before a restore does not apply yet: the deployment is maintained as before, and its
// status says what is held.
func (r *Reconciler) withdrawStep(ctx context.Context, s *snapshot, a release.Action) (ending, error) {
	switch {
	case a.Verb == release.Hold && isBehind(a):
		r.acts.decided(s, a)
		return maintain, r.hold(ctx, s, a)
	case a.Verb == release.Hold:
		r.acts.decided(s, a)
		s.again(a.After)
		return over, nil
	case a.Verb == release.Acknowledge:
		return over, r.acknowledge(ctx, s, a)
	case a.Verb == release.Uninstall && !r.removals.enter(s.name):
		s.again(removalDelay)
		return over, nil
	}
	err := r.releases.take(ctx, s, a)
	if next := r.removals.leave(s.name); next != "" {
		r.loop.Add(kube.Key{Name: next})
	}
	if err != nil {
		return over, r.stuck(ctx, s, err)
	}
	return more, nil
}

// installed is the release that this deployment made: the one in the record, in case
// the manager has changed the options together with the order.
func installed(s *snapshot) release.ID {
	if s.known && s.rec.Release != (release.ID{}) {
		return s.rec.Release
	}
	return s.wanted.ID
}

// acknowledge forgets the deployment and answers the order in one write. The record is
// deleted first: the manager may delete an answered deployment at any time, and a
// record without deployment would look as if there had been no order.
func (r *Reconciler) acknowledge(ctx context.Context, s *snapshot, a release.Action) error {
	if err := r.removeFormer(ctx, s); err != nil {
		return r.stuck(ctx, s, err)
	}
	if err := r.copies.withdraw(ctx, s); err != nil {
		return r.stuck(ctx, s, err)
	}
	if err := r.namespaces.drop(ctx, s); err != nil {
		return r.stuck(ctx, s, err)
	}
	if len(s.rec.Former) > 0 {
		return nil // another bundle is about to take it over
	}
	if err := r.dropAll(ctx, s); err != nil {
		return err
	}
	r.guard.KeepVersion() // the record that said it is gone
	if s.bd == nil {
		r.releases.log(s, a).Info("withdrawal carried out")
		return nil
	}
	after, err := r.status.Answer(ctx, s.session.statuses(), s.bd, report.Withdrawn(s.bd, s.wanted.Order, a.Message, r.cfg.Now()))
	if s.again(after); err != nil || s.after > 0 {
		return err
	}
	r.wakeSiblings(s.session, s.bd, func(*fleet.BundleDeployment) bool { return true }) // some may have lost objects to it
	r.releases.log(s, a).Info("withdrawal answered")
	r.acts.decided(s, a)
	return nil
}

// dropAll removes all records of a deployment that is withdrawn.
func (r *Reconciler) dropAll(ctx context.Context, s *snapshot) error {
	r.forget(s.name)
	for _, rec := range r.cfg.Store.All() {
		if rec.Key.Name == s.name {
			if err := r.cfg.Store.Drop(ctx, rec.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// stuck reports that a removal failed; it is tried again with a growing delay, until it
// succeeds or a user gives it up.
func (r *Reconciler) stuck(ctx context.Context, s *snapshot, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	s.again(r.attempts.failed(s))
	r.cfg.Log.WithFields(logrus.Fields{
		"deployment": s.name, "action": string(release.Uninstall), "reason": reconcile.ReasonOf(err), "error": err.Error(),
	}).Warn("deployment not removed")
	if s.bd == nil {
		return nil
	}
	return r.report(ctx, s, report.Found{ // without the id of what runs: it is ErrApplied
		Release: fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Revision),
		Failure: &report.Failure{Reason: reconcile.ReasonOf(err), Message: "uninstall: " + err.Error()},
	})
}
