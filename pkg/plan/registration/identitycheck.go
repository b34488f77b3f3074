package registration

import "time"

// Limits of waiting for the agent of another cluster.
const (
	quietCheckIns = 4               // without a sign of the other agent
	quietTime     = 5 * time.Minute // in all, at least
)

// An IdentityCheck says whether an agent may act for its Cluster, by the cluster that the
// agent before it worked in. It distinguishes two clusters with one credential, as after a
// copy of the Secret, before the second one deploys anything. The zero IdentityCheck has
// seen no answer.
type IdentityCheck struct {
	Own string // the UID of the agent's own cluster; empty: not known, and nothing is compared

	claimed bool // the Cluster is to say Own from now on
	quiet   int  // check-ins without a sign of the other agent
	since   time.Time
}

// An IdentityAnswer is what a check-in says, as far as the IdentityCheck of an agent
// is concerned.
type IdentityAnswer struct {
	Known    string        // what the Cluster says; empty: nothing
	Rival    bool          // another agent has written its name since
	Joined   bool          // the agent has just registered, so that earlier credentials end
	Interval time.Duration // between two check-ins
}

// Observe takes in an answer. act reports whether the agent may deploy what its manager
// wants, claim whether it says with its next check-in that the Cluster is its own.
//
// The agent of a rebuilt cluster finds the UID of the cluster before. It acts once the
// earlier agent was not seen for four check-ins and five minutes, or as soon as it has
// registered.
func (i *IdentityCheck) Observe(a IdentityAnswer, now time.Time) (act, claim bool) {
	switch {
	case i.Own == "":
		return true, false
	case a.Known == i.Own:
		i.claimed, i.quiet, i.since = false, 0, time.Time{}
		return true, false
	case a.Known == "", a.Joined, i.claimed && !a.Rival:
		i.claimed = true
		return true, true
	case a.Rival, i.since.IsZero():
		i.claimed, i.quiet, i.since = false, 0, now
		return false, false
	}
	i.quiet++
	i.claimed = i.quiet >= quietCheckIns && now.Sub(i.since) >= max(quietTime, quietCheckIns*a.Interval)
	return i.claimed, i.claimed
}
