package view

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// WindowClosed says that a deployment is outside of the change windows of its cluster, and
// when the next one opens; empty while it may be changed.
func WindowClosed(bd *fleet.BundleDeployment, now time.Time) string {
	if o, err := schedule.ParseOverride(bd.Annotations[fleet.AnnotationOpenUntil]); err == nil && o.Active(now) {
		return ""
	}
	text := schedule.Decode(bd.Annotations[fleet.AnnotationWindows]).Closed(now)
	if text == "" && bd.Spec.OffSchedule {
		return "outside of the windows of the cluster's schedule"
	}
	return text
}
