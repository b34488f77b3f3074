package deploy

import (
	"context"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// deliver writes a status. If no watch keeps the cache current, deliver updates the
// cache with the result.
func (r *Reconciler) deliver(ctx context.Context, s *snapshot, changed *fleet.BundleDeployment) error {
	got, err := s.session.Statuses.PatchStatus(ctx, s.bd, changed)
	if !s.session.Deployments.Listed() {
		return err
	}
	if kube.IsConflict(err) { // it has changed since the list, and no watch reports that
		fresh, readErr := s.session.Statuses.Get(ctx, kube.KeyOf(s.bd))
		if readErr != nil {
			return readErr
		}
		s.session.Deployments.Put(fresh)
		return err
	}
	if err == nil && got != s.bd {
		s.session.Deployments.Put(got)
	}
	return err
}

// settled notes that the manager knows the state of a deployment, and whether that
// state is expected to change soon.
func (r *Reconciler) settled(s *snapshot, f report.Found, status fleet.BundleDeploymentStatus) {
	s.heard()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state.reported = s.session
	s.state.moving = report.Passing(status) || f.Failure != nil && f.Failure.Waiting
}

// Restless returns the deployments of a session that are not done, or whose result the
// manager does not have yet, in order. Those that failed, or that must not be touched
// now, are done.
func (r *Reconciler) Restless(session *Session) []string {
	var out []string
	for _, bd := range session.Deployments.List("") {
		if !r.atRest(session, bd) {
			out = append(out, bd.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (r *Reconciler) atRest(session *Session, bd *fleet.BundleDeployment) bool {
	if order := bd.Annotations[fleet.AnnotationWithdrawn]; order != "" {
		return report.Answered(bd, order)
	}
	if bd.Spec.DeploymentID == "" || bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.WaitingForValues || r.suspended.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.states[bd.Name]
	return st != nil && st.reported == session && !st.moving
}
