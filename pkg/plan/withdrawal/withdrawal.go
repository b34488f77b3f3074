// Package withdrawal decides how a deployment leaves a cluster. The manager marks the
// BundleDeployment with an annotation, the agent uninstalls and answers, and only then
// does the manager delete the object. Nothing else makes an agent uninstall.
//
// It also decides which deletions the manager holds until a user approves them: above
// the deletion budget, of protected objects, with a namespace or a
// CustomResourceDefinition, and by another release. Package controllers/bundle applies
// both.
package withdrawal

import (
	"fmt"
	"math"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// An Action is the next thing to do with a deployment that is not wanted.
type Action int

// Actions.
const (
	Wait   Action = iota // for what the reason says
	Mark                 // write an order on it
	Delete               // delete the object
)

// Facts are the inputs of the decision.
type Facts struct {
	// Order is the id on the mark; empty: no order was given.
	Order string
	// Answered reports that the agent has carried out this order.
	Answered bool
	// Abandoned reports that a person has ended the wait for the agent.
	Abandoned bool
	// Orders reports whether the agent understands orders. For one that does not, the
	// manager just deletes the object.
	Orders bool
	// Orphaned reports that the cluster is gone from the fleet: no agent will
	// answer, and what runs there is left alone.
	Orphaned bool
	// Blocked says what must happen first; empty: nothing.
	Blocked string
}

// Read finds the facts that stand on the object itself.
func Read(bd *fleet.BundleDeployment) Facts {
	f := Facts{Order: bd.Annotations[fleet.AnnotationWithdrawn]}
	_, f.Abandoned = bd.Annotations[fleet.AnnotationAbandon]
	c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn)
	f.Answered = f.Order != "" && c != nil && c.Status == "True" && c.Message == f.Order &&
		bd.Status.AppliedDeploymentID == ""
	return f
}

// Decide returns the next action and its reason.
func Decide(f Facts) (Action, string) {
	switch {
	case f.Orphaned:
		return Delete, "its cluster has left the fleet"
	case f.Order != "" && f.Answered:
		return Delete, "the agent has uninstalled it"
	case f.Order != "" && f.Abandoned:
		return Delete, "a person gave up waiting for the agent"
	case f.Order != "":
		return Wait, "the agent has not answered yet"
	case f.Blocked != "":
		return Wait, f.Blocked
	case !f.Orders:
		return Delete, "its agent does not know orders"
	}
	return Mark, "not wanted any more"
}

// Pace limits withdrawals that a change of targets causes: 10 at once, then a
// tenth of the Bundle's deployments a minute, so that a mistake can be undone.
// The zero Pace has not been used yet. It is a value, and takes back any part of what it
// allowed; a rate.Limiter changes in place and takes back whole reservations.
type Pace struct {
	tokens  float64
	updated time.Time
}

const atOnce = 10

// Take asks for want withdrawals out of total deployments of the Bundle. It
// returns how many are allowed now, the Pace to keep, and when to ask again
// if that is not all (0: never).
func (p Pace) Take(want, total int, now time.Time) (int, Pace, time.Duration) {
	perMinute := math.Max(float64(total)/10, 1)
	if p.updated.IsZero() {
		p.tokens = atOnce
	} else {
		p.tokens = math.Min(atOnce, p.tokens+now.Sub(p.updated).Minutes()*perMinute)
	}
	p.updated = now
	n := min(want, int(p.tokens))
	p.tokens -= float64(n)
	if n == want {
		return n, p, 0
	}
	missing := math.Min(float64(want-n), atOnce) - p.tokens
	return n, p, time.Duration(missing/perMinute*float64(time.Minute)) + time.Millisecond
}

// Return gives n withdrawals back that Take has allowed and that were not written.
func (p Pace) Return(n int) Pace {
	p.tokens = math.Min(atOnce, p.tokens+float64(n))
	return p
}

// GraceOffline is how long a deleted Bundle waits for clusters that are silent
// but not known to be offline yet.
const GraceOffline = 5 * time.Minute

// A Remnant is a deployment of a deleted Bundle that still exists.
type Remnant struct {
	Cluster string
	Ordered bool // it is marked
	Offline bool // its cluster is known to be offline
	Silent  bool // its agent has not reported since the Bundle was deleted
}

// Release decides whether a deleted Bundle may go although deployments remain, age after
// its deletion. They stay behind as tombstones: an agent that comes back finds its order.
// Release always waits for an agent that reports. The text says what it waits for; recheck
// is when time alone may change the answer.
func Release(remnants []Remnant, age time.Duration) (ok bool, reason string, recheck time.Duration) {
	for _, r := range remnants {
		switch {
		case !r.Ordered:
			return false, fmt.Sprintf("%s: not ordered yet", r.Cluster), 0
		case r.Offline, r.Silent && age >= GraceOffline:
			continue
		case r.Silent:
			reason, recheck = fmt.Sprintf("waits for %s, which is silent", r.Cluster), GraceOffline-age
		default:
			return false, fmt.Sprintf("waits for the agent of %s to uninstall it", r.Cluster), GraceOffline
		}
	}
	return reason == "", reason, recheck
}
