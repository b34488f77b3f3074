package deploy

import (
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

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
	if bd.Spec.DeploymentID == "" || bd.Spec.Paused || bd.Spec.OffSchedule || bd.Spec.WaitingForValues || r.link.suspended.Load() {
		return true
	}
	return r.status.AtRest(session, bd.Name)
}
