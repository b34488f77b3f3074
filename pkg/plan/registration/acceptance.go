package registration

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Ways to treat an agent that asks for a Cluster which has had an agent.
const (
	ReclaimAllow   = "allow"   // an agent that has a token and knows the clientID gets it
	ReclaimApprove = "approve" // a person accepts it first
)

// A Claim is a request for a Cluster that exists.
type Claim struct {
	Again bool   // the Cluster has had an agent before
	Waits string // for what; empty: it is granted
}

// DecideClaim decides about a request for a Cluster that exists, made with registration
// token t. siblings are the requests of the same client.
//
// A Cluster that no agent has used yet is free. The manager's own token, for a Cluster
// whose agent it installs, needs no approval if the API server verifies that a request is
// made with the token that it names: a user who may make that Cluster's tokens may change
// the Cluster. A Cluster that a group's token has brought in is given to tokens of that
// group only.
func DecideClaim(r *fleet.ClusterRegistration, c *fleet.Cluster, t *fleet.ClusterRegistrationToken, siblings []*fleet.ClusterRegistration, s Settings) Claim {
	claim, group := Claim{Again: hadAgent(c, siblings)}, GroupOf(c)
	switch {
	case ownToken(t, c) && s.TokensChecked, Accepted(r, c, siblings):
	case group != "" && TokenGroup(t) != group:
		claim.Waits = fmt.Sprintf("ClusterRegistration %q asks with token %q for this Cluster, which came in by a token for group %q, and that one is not", r.Name, t.Name, group)
	case s.Reclaim == ReclaimApprove && claim.Again:
		claim.Waits = fmt.Sprintf("ClusterRegistration %q asks for this Cluster, which has an agent already", r.Name)
	}
	if claim.Waits != "" {
		claim.Waits += fmt.Sprintf(": fleet cluster accept -n %s %s lets it in, deleting the ClusterRegistration refuses it", c.Namespace, c.Name)
	}
	return claim
}

// Accepted reports whether a person has accepted a request, or an earlier one of
// the same agent: one that knows the same word.
func Accepted(r *fleet.ClusterRegistration, c *fleet.Cluster, siblings []*fleet.ClusterRegistration) bool {
	name := c.Annotations[fleet.AnnotationAcceptRegistration]
	if name == "" || name == r.Name {
		return name != ""
	}
	for _, o := range siblings {
		if o.Name == name && o.Namespace == r.Namespace && o.Spec.ClientID == r.Spec.ClientID {
			return o.Spec.ClientRandom == r.Spec.ClientRandom
		}
	}
	return false
}

// hadAgent reports whether an agent has ever worked for a Cluster.
func hadAgent(c *fleet.Cluster, requests []*fleet.ClusterRegistration) bool {
	if !c.Status.Agent.LastSeen.IsZero() {
		return true
	}
	for _, r := range requests {
		if r.Status.Granted && r.Namespace == c.Namespace && r.Status.ClusterName == c.Name && !External(r) {
			return true
		}
	}
	return false
}

// ownToken reports whether the manager has made a token to install the agent of a
// Cluster with. Such a token is owned by its Cluster.
func ownToken(t *fleet.ClusterRegistrationToken, c *fleet.Cluster) bool {
	for _, ref := range t.OwnerReferences {
		if ref.Kind == "Cluster" && ref.UID == c.UID && ref.APIVersion == fleet.GroupVersion.String() {
			return c.UID != ""
		}
	}
	return false
}

// OwnedByCluster returns the reference by which a token is the manager's own for a Cluster,
// and goes with it.
func OwnedByCluster(c *fleet.Cluster) []metav1.OwnerReference {
	return []metav1.OwnerReference{owner("Cluster", c)}
}

// ReleaseClaim returns a Cluster without the user's acceptance of a request, after that
// request was granted.
func ReleaseClaim(c *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	delete(out.Annotations, fleet.AnnotationAcceptRegistration)
	return out
}

// WaitingRequests returns the requests that wait to be accepted for a Cluster: they name it, and are
// not granted.
func WaitingRequests(c *fleet.Cluster, requests []*fleet.ClusterRegistration) []*fleet.ClusterRegistration {
	var out []*fleet.ClusterRegistration
	for _, r := range requests {
		if r.Namespace == c.Namespace && r.Status.ClusterName == c.Name && !r.Status.Granted &&
			r.DeletionTimestamp == nil && !External(r) {
			out = append(out, r)
		}
	}
	return out
}

// ClaimSettled reports whether a Cluster has a user's acceptance of a request that was
// granted. requests are those that name the Cluster.
func ClaimSettled(c *fleet.Cluster, requests []*fleet.ClusterRegistration) bool {
	if c.Annotations[fleet.AnnotationAcceptRegistration] == "" {
		return false
	}
	for _, r := range requests {
		if r.Status.Granted && r.Status.ClusterName == c.Name && Accepted(r, c, requests) {
			return true
		}
	}
	return false
}
