package heartbeat

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reference is how often rancher/fleet's agents check in, whatever interval this manager
// sets.
const reference = 15 * time.Minute

// VisitLimit is for how long an agent with a schedule tries to begin a visit, and
// at most how long it stays.
const VisitLimit = 5 * time.Minute

// A CheckInPolicy is what is known of how an agent checks in.
type CheckInPolicy struct {
	// Ordered is the interval that the manager has set for it; 0: none.
	Ordered time.Duration
	// Announced is how long after its last check-in it means to come next, in its own
	// words and by its own clock alone; 0: it does not say.
	Announced time.Duration
	// Scheduled reports that it comes at the times of a schedule.
	Scheduled bool
	// Protocol that it speaks; 0: rancher/fleet's agent.
	Protocol int
}

// PolicyOf reads from a Cluster how its agent checks in. protocol is that of the
// agent.
func PolicyOf(c *fleet.Cluster, protocol int) CheckInPolicy {
	h := CheckInPolicy{Protocol: protocol, Scheduled: Polls(c)}
	if reported, err := ParseInterval(c.Annotations[fleet.AnnotationCheckInInterval]); err == nil {
		h.Ordered = reported
	}
	if a := &c.Status.Agent; a.NextCheckIn != nil && !a.LastSeen.IsZero() {
		h.Announced = a.NextCheckIn.Sub(a.LastSeen.Time)
		h.Scheduled = h.Scheduled || h.Announced > Longest // its own configuration may say so
	}
	return h
}

// Polls reports whether the agent of a Cluster is meant to come at the times of a
// schedule only.
func Polls(c *fleet.Cluster) bool { return c.Spec.CheckIn != nil && c.Spec.CheckIn.Mode == ModePoll }

// Deadline returns how long after its last sign of life an agent is missed. usual is the
// interval of an agent for which the manager has set none.
//
// The deadline is three check-ins. An agent that has announced a later check-in, because of
// a schedule or an interval of its own, has until then and two check-ins more; with a
// schedule these are at least a minute longer than it may try to begin its visit. The
// reference's agents do not get an interval and announce none.
func (c CheckInPolicy) Deadline(usual time.Duration) time.Duration {
	period := usual
	if c.Ordered > 0 {
		period = c.Ordered
	}
	if c.Protocol == 0 {
		period = max(period, reference)
	}
	grace := (Missed - 1) * period
	if c.Scheduled {
		grace = max(grace, VisitLimit+time.Minute)
	}
	if c.Announced <= 0 {
		return Missed * period
	}
	return max(Missed*period, c.Announced+grace)
}

// Absent returns the message for an agent that missed its deadline.
func (c CheckInPolicy) Absent(usual time.Duration) string {
	if c.Deadline(usual) > c.withReported(0).Deadline(usual) {
		return "the agent did not come when it had said it would"
	}
	return "the agent missed 3 check-ins"
}

// withReported is a policy with other words of the agent.
func (c CheckInPolicy) withReported(said time.Duration) CheckInPolicy {
	c.Announced = said
	return c
}
