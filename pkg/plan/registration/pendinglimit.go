package registration

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultMaxPending is Settings.MaxPending where nothing is configured. Agents check
// in seconds after they have registered, so many thousands may join one after another.
const DefaultMaxPending = 1000

// NeverHadAgent reports whether no agent has ever worked for a Cluster.
func NeverHadAgent(c *fleet.Cluster) bool { return c.Status.Agent.LastSeen.IsZero() }

// PendingLimitReason returns why a token brings in no further Cluster for now; empty: it does. unseen
// are the Clusters of its workspace that no agent has worked for, and requests finds those
// of one of them.
func PendingLimitReason(t *fleet.ClusterRegistrationToken, limit int, unseen []*fleet.Cluster, requests func(*fleet.Cluster) []*fleet.ClusterRegistration) string {
	if limit == 0 || len(unseen) < limit {
		return ""
	}
	pending := 0
	for _, c := range unseen {
		for _, r := range requests(c) {
			if r.Labels[fleet.LabelRegistrationToken] == t.Name {
				pending++
				break
			}
		}
	}
	if pending < limit {
		return ""
	}
	return fmt.Sprintf("no agent has worked for %d Clusters that registration token %q has brought in: further ones wait until agents of these check in, or these are deleted "+
		"(value registration.maxPending of the chart fleet)", limit, t.Name)
}
