package registration

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AbandonedAfter is when a request that was never granted is deleted. Its agent gave up
// long before. ExternalAfter is the same for a request that says that another program
// answers it, which any requester may say.
const (
	AbandonedAfter = 2 * time.Hour
	ExternalAfter  = 24 * time.Hour
)

// IsAbandoned reports whether a request was never granted and its agent has given
// it up.
func IsAbandoned(r *fleet.ClusterRegistration, now time.Time) bool {
	after := AbandonedAfter
	if External(r) {
		after = ExternalAfter
	}
	return !r.Status.Granted && now.Sub(r.CreationTimestamp.Time) > after
}
