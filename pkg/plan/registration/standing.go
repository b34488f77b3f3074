package registration

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// A Standing is the place of a request among those of the same clientID.
type Standing int

// Standings.
const (
	// Newest: this request is answered.
	Newest Standing = iota
	// Waiting: a newer request is being answered; this one is left as it is.
	Waiting
	// Outgoing: a newer request was granted; this one keeps its rights until the
	// newer credential has been in use for a while.
	Outgoing
	// Superseded: a newer request was answered; this one goes, and with it
	// what it was granted.
	Superseded
	// Repeated: this request asks again for an answer that is there. Another
	// answer would void the credential that the agent may just have fetched.
	Repeated
	// Unused: no client fetched or used what this request was granted, and the credential
	// before it is in use; this one is removed.
	Unused
)

// A Handed is what is known of the credential that a request was granted.
type Handed struct {
	Fetchable bool          // its Secret is there
	Over      bool          // the time to fetch it is over
	Used      bool          // a client has shown its token to the API server
	For       time.Duration // since that was seen; 0 where it was not
}

// overlapLimit is the longest Overlap.
const overlapLimit = 5 * time.Minute

// Overlap returns how long two credentials of one Cluster work side by side, once the newer
// one is in use: three check-ins, at most 5 minutes. An agent that is still alive with the
// older one shows itself in that time. A checkin of 0 is what is usual.
func Overlap(checkin time.Duration) time.Duration {
	if checkin <= 0 {
		checkin = heartbeat.Usual
	}
	return min(heartbeat.Missed*checkin, overlapLimit)
}

// Present returns the requests that count: one that is being deleted is gone, whatever
// finalizers keep it.
func Present(requests []*fleet.ClusterRegistration) []*fleet.ClusterRegistration {
	return slices.DeleteFunc(slices.Clone(requests), func(r *fleet.ClusterRegistration) bool { return r.DeletionTimestamp != nil })
}

// StandingOf places a request among the requests of its namespace. handed holds what is
// known of granted ones by name. left is when to look again at a request that is Outgoing;
// 0: only when something changes.
//
// Requests made in the same second are equally new. If two such requests were granted, the
// one whose credential came into use first is removed.
func StandingOf(r *fleet.ClusterRegistration, all []*fleet.ClusterRegistration, handed map[string]Handed, overlap time.Duration) (standing Standing, left time.Duration) {
	for _, o := range all {
		if o.Namespace != r.Namespace || o.Name == r.Name || o.Spec.ClientID != r.Spec.ClientID || External(o) {
			continue
		}
		switch judged, after := compareRequests(r, o, handed, overlap); judged {
		case Repeated, Superseded, Unused:
			return judged, 0
		case Outgoing:
			standing, left = Outgoing, max(left, after)
		case Waiting:
			if standing == Newest {
				standing = Waiting
			}
		case Newest:
		}
	}
	return standing, left
}

// compareRequests places a request beside one other of the same client.
func compareRequests(r, o *fleet.ClusterRegistration, handed map[string]Handed, overlap time.Duration) (Standing, time.Duration) {
	mine, theirs := handed[r.Name], handed[o.Name]
	newer := r.CreationTimestamp.Before(&o.CreationTimestamp)
	equal := r.CreationTimestamp.Equal(&o.CreationTimestamp)
	switch {
	case !r.Status.Granted && o.Status.Granted && theirs.Fetchable && o.Spec.ClientRandom == r.Spec.ClientRandom:
		return Repeated, 0
	case newer && !o.Status.Granted:
		return Waiting, 0
	case newer && !r.Status.Granted:
		return Superseded, 0
	case !r.Status.Granted || !o.Status.Granted:
		return Newest, 0
	case equal && (!mine.Used || !theirs.Used || theirs.For >= mine.For):
		return Newest, 0
	case newer || equal:
		return succession(mine, theirs, overlap)
	case mine.Over && !mine.Fetchable && !mine.Used && theirs.Used:
		return Unused, 0
	}
	return Newest, 0
}

// succession reports whether a newer credential has taken the place of an older
// one, and when it will have. Where the API server does not note which tokens are
// used, it has when it cannot be fetched any more.
func succession(older, newer Handed, overlap time.Duration) (Standing, time.Duration) {
	switch {
	case newer.Used && newer.For >= overlap:
		return Superseded, 0
	case newer.Used:
		return Outgoing, overlap - newer.For
	case newer.Over && !newer.Fetchable && !older.Used:
		return Superseded, 0
	}
	return Outgoing, 0
}
