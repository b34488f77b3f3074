package credential

import (
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Heartbeat returns the last sign of life of a Cluster's agent: the API server's time of
// what the agent wrote last, else, where that is not known, the agent's own time; zero if
// it never checked in.
func Heartbeat(c *fleet.Cluster) time.Time {
	var last time.Time
	for _, m := range c.ManagedFields {
		ours := strings.HasPrefix(m.Manager, fleet.FieldManagerAgentPrefix) || m.Manager == fleet.FieldManagerRelease
		if ours && m.Subresource == "status" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	if last.IsZero() {
		return c.Status.Agent.LastSeen.Time
	}
	return last
}

// LastSign returns when the agent of a Cluster was seen last, as the cache keeps it, or
// when it registered where that is later.
func LastSign(c *fleet.Cluster, registered time.Time) time.Time {
	if seen := c.Status.Agent.LastSeen.Time; seen.After(registered) {
		return seen
	}
	return registered
}
