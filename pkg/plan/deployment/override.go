package deployment

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// AtOverride returns the place of a deployment, which may be nil. Outside of the change
// windows of its cluster, a deployment with an active override has an open place.
func AtOverride(p *Place, bd *fleet.BundleDeployment, now time.Time) *Place {
	if p.Closed == "" || bd == nil {
		return p
	}
	o, err := schedule.ParseOverride(bd.Annotations[fleet.AnnotationOpenUntil])
	if err != nil || !o.Active(now) {
		return p
	}
	open := *p
	open.Closed, open.OffSchedule = "", false
	return &open
}
