package statuswriter

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// What is found while the manager is away is reported when it is back, with the
// original times. Until then it is kept in memory. What has changed is also kept in the
// record, so that it survives the agent.

// unreported is what was found of one deployment while the manager was away; nil:
// nothing since the agent's start.
type unreported []fleet.Condition

// remember stores the conditions of a report that cannot be written.
func (u *unreported) remember(r Report, now time.Time) {
	bd := r.Object
	if bd == nil {
		bd = &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Generation: r.Generation}, Spec: r.Spec}
	}
	known := bd.Status.Conditions
	found := report.Status(bd, r.Found, now).Conditions
	*u = report.Note(u.conditions(r), known, found, now, r.Object == nil && *u == nil)
	*r.Unreported = report.Unreported(*u, known)
}

// conditions returns the conditions that this process, or the previous one, has stored.
func (u *unreported) conditions(r Report) []fleet.Condition {
	if *u != nil {
		return *u
	}
	return *r.Unreported
}

// forget drops the stored conditions: the manager has them.
func (u *unreported) forget(r Report) { *u, *r.Unreported = nil, nil }
