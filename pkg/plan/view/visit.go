package view

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// NextVisit returns when the agent of a Cluster has said that it connects next, where it
// does so by a schedule; zero for one that is always connected, and where it is not known.
func NextVisit(c *fleet.Cluster) time.Time {
	next := c.Status.Agent.NextCheckIn
	if next == nil || !heartbeat.PolicyOf(c, fleet.ProtocolVersion).Scheduled {
		return time.Time{}
	}
	return next.Time
}
