package deploy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// What is found while the manager is away is reported when it is back, with the
// original times. Until then it is kept in memory. What has changed is also kept in the
// record, so that it survives the agent.

// remember keeps what is found and cannot be reported.
func (r *Reconciler) remember(s *snapshot, f report.Found) {
	bd := s.bd
	if bd == nil {
		bd = &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Generation: s.rec.Generation}, Spec: s.spec}
	}
	now := r.cfg.Now()
	known := bd.Status.Conditions
	found := report.Status(bd, f, now).Conditions
	s.state.unreported = report.Note(s.unreported(), known, found, now, s.bd == nil && s.state.unreported == nil)
	s.rec.Unreported = report.Unreported(s.state.unreported, known)
}

// unreported is what is kept: by this process, or by the one before.
func (s *snapshot) unreported() []fleet.Condition {
	if s.state.unreported != nil {
		return s.state.unreported
	}
	return s.rec.Unreported
}

// heard forgets what was kept: the manager has got all of it.
func (s *snapshot) heard() { s.state.unreported, s.rec.Unreported = nil, nil }

// away reports whether the manager is known to be away. Everything is looked at
// again when it is back.
func (s *Session) away() bool { return s.Away != nil && s.Away() }
