package deploy

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// withdraw carries out an order to remove a deployment: after the others of its
// repository were tried it uninstalls the release, and then answers.
func (r *Reconciler) withdraw(ctx context.Context, s *snapshot) (kube.Next, error) {
	order := s.wanted.Order
	if r.suspended.Load() {
		return kube.Done, nil
	}
	if report.Answered(s.bd, order) {
		return kube.Done, r.dropAll(ctx, s)
	}
	s.wanted.ID = r.installed(s)
	for range maxSteps {
		var err error
		if s.observed, err = r.cfg.Helm.Observe(ctx, s.wanted.ID); err != nil {
			return kube.Done, err
		}
		a := release.Decide(s.observed, s.wanted)
		switch a.Verb {
		case release.Hold:
			return kube.Next{After: a.After}, nil
		case release.Acknowledge:
			return r.acknowledge(ctx, s, a)
		}
		if err := r.act(ctx, s, a); err != nil {
			return r.stuck(ctx, s, err)
		}
	}
	return kube.Done, fmt.Errorf("release %s does not come to rest", s.wanted.ID)
}

// installed is the release that this deployment made: the one in the record,
// should the manager have changed the options together with the order.
func (r *Reconciler) installed(s *snapshot) release.ID {
	if s.known && s.rec.Release != (release.ID{}) {
		return s.rec.Release
	}
	return s.wanted.ID
}

// acknowledge answers the order in one write, and then forgets the deployment.
func (r *Reconciler) acknowledge(ctx context.Context, s *snapshot, a release.Action) (kube.Next, error) {
	if err := r.removeFormer(ctx, s); err != nil {
		return r.stuck(ctx, s, err)
	}
	changed := s.bd.DeepCopy()
	changed.Status = report.Withdrawn(s.bd, s.wanted.Order, a.Message, r.cfg.Now())
	_, err := s.session.Statuses.PatchStatus(ctx, s.bd, changed)
	if err := r.told(s, err); err != nil || s.after > 0 {
		return kube.Next{After: s.after}, err
	}
	r.log(s, a).Info("withdrawal answered")
	return kube.Done, r.dropAll(ctx, s)
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

// stuck reports that a removal failed; it is tried again and again, slower and
// slower, until it succeeds or a person gives it up.
func (r *Reconciler) stuck(ctx context.Context, s *snapshot, err error) (kube.Next, error) {
	if ctx.Err() != nil {
		return kube.Done, nil
	}
	r.tried(s, s.state.attempts+1)
	s.again(backOff(s.state.attempts))
	r.cfg.Log.WithFields(logrus.Fields{
		"deployment": s.name, "action": string(release.Uninstall), "reason": fault.ReasonOf(err), "error": err.Error(),
	}).Warn("deployment not removed")
	tellErr := r.tell(ctx, s, report.Found{
		Release: fmt.Sprintf("%s:%d", s.observed.ID, s.observed.Revision),
		Failure: &report.Failure{Reason: fault.ReasonOf(err), Message: "uninstall: " + err.Error()},
	})
	return kube.Next{After: s.after}, tellErr
}
