package registration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

func TestJudgeClaim(t *testing.T) {
	cluster := func(seen bool, accept string) *fleet.Cluster {
		c := aCluster("c", "a", 0)
		c.UID = "u1"
		if seen {
			c.Status.Agent.LastSeen = at(0)
		}
		if accept != "" {
			c.Annotations = map[string]string{fleet.AnnotationAcceptRegistration: accept}
		}
		return c
	}
	before := granted(request("before", "a", -time.Hour))
	before.Status.ClusterName = "c"
	earlier := request("earlier", "a", -time.Minute)
	foreign := request("stranger", "a", -time.Minute)
	foreign.Spec.ClientRandom = "another word"
	mine, theirs := &fleet.ClusterRegistrationToken{}, &fleet.ClusterRegistrationToken{}
	mine.OwnerReferences = OwnedByCluster(cluster(false, ""))
	other := cluster(false, "")
	other.UID = types.UID("u2")
	theirs.OwnerReferences = OwnedByCluster(other)
	of := func(group string) *fleet.ClusterRegistrationToken {
		t := &fleet.ClusterRegistrationToken{}
		t.Annotations = map[string]string{fleet.AnnotationTokenGroup: group}
		return t
	}
	inGroup := func(c *fleet.Cluster, group string) *fleet.Cluster {
		c.Annotations = withEntry(c.Annotations, fleet.AnnotationTokenGroup, group)
		return c
	}
	labelled := func(name, group string) *fleet.Cluster {
		c := aCluster(name, "a", 0)
		c.Labels = map[string]string{fleet.LabelGroup: group}
		return c
	}
	cases := map[string]struct {
		why      string
		cluster  *fleet.Cluster
		token    *fleet.ClusterRegistrationToken
		siblings []*fleet.ClusterRegistration
		allow    bool
		loose    bool // the API server checks no tokens
		again    bool
		waits    bool
	}{
		"Predefined":    {why: "a Cluster that was made beforehand waits for its first agent", cluster: cluster(false, "")},
		"Seen":          {why: "it has had an agent", cluster: cluster(true, ""), again: true, waits: true},
		"Granted":       {why: "it has a credential, even if the agent has not used it yet", cluster: cluster(false, ""), siblings: []*fleet.ClusterRegistration{before}, again: true, waits: true},
		"Allowed":       {why: "the reference asks for no approval", cluster: cluster(true, ""), allow: true, again: true},
		"Accepted":      {why: "a person has said so", cluster: cluster(true, "r"), again: true},
		"AcceptedOther": {why: "another request was meant", cluster: cluster(true, "x"), again: true, waits: true},
		"AcceptedEarlier": {
			why:     "an agent that asked again while it waited is the same one: it knows the word",
			cluster: cluster(true, "earlier"), siblings: []*fleet.ClusterRegistration{earlier}, again: true,
		},
		"AcceptedStranger": {
			why:     "another agent with the same clientID was accepted",
			cluster: cluster(true, "stranger"), siblings: []*fleet.ClusterRegistration{foreign}, again: true, waits: true,
		},
		"ManagersOwn": {why: "the manager installs this Cluster's agent itself", cluster: cluster(true, ""), token: mine, again: true},
		"ManagersOwnUnchecked": {
			why:     "who guesses the name of the manager's token for this Cluster is not the manager",
			cluster: cluster(true, ""), token: mine, loose: true, again: true, waits: true,
		},
		"SameGroup":     {why: "the group's token brought it in, and brings it back", cluster: inGroup(cluster(true, ""), "prod"), token: of("prod"), allow: true, again: true},
		"OtherGroup":    {why: "a token of one group must not get what another group's clusters get", cluster: inGroup(cluster(false, ""), "prod"), token: of("edge"), allow: true, waits: true},
		"NoGroup":       {why: "nor a token without a group", cluster: inGroup(cluster(false, ""), "prod"), allow: true, waits: true},
		"GroupAccepted": {why: "a person has said so", cluster: inGroup(cluster(true, "r"), "prod"), token: of("edge"), allow: true, again: true},
		"IntoGroup":     {why: "a Cluster that no token put into a group stays as it is", cluster: cluster(true, ""), token: of("edge"), allow: true, again: true},
		"OlderInGroup":  {why: "before groups were noted only tokens gave this label", cluster: labelled(naming.RegisteredCluster("a"), "prod"), token: of("edge"), allow: true, waits: true},
		"MadeByPerson":  {why: "whom a person's Cluster is for is said by its clientID", cluster: labelled("c", "prod"), token: of("edge"), allow: true},
		"ManagersOther": {why: "the token was made for another Cluster", cluster: cluster(true, ""), token: theirs, again: true, waits: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reclaim, token := ReclaimApprove, c.token
			if c.allow {
				reclaim = ReclaimAllow
			}
			if token == nil {
				token = &fleet.ClusterRegistrationToken{}
			}
			got := DecideClaim(request("r", "a", 0), c.cluster, token, c.siblings, Settings{Reclaim: reclaim, TokensChecked: !c.loose})
			if got.Again != c.again || (got.Waits != "") != c.waits {
				t.Errorf("%s: got %+v", c.why, got)
			}
			if c.waits && !strings.Contains(got.Waits, "fleet cluster accept -n "+c.cluster.Namespace+" "+c.cluster.Name) {
				t.Errorf("the text must say what helps: %s", got.Waits)
			}
		})
	}
}

func TestClaimSettled(t *testing.T) {
	c := aCluster("c", "a", 0)
	c.Annotations = map[string]string{fleet.AnnotationAcceptRegistration: "r"}
	r := request("r", "a", 0)
	r.Status.ClusterName = "c"
	if ClaimSettled(c, []*fleet.ClusterRegistration{r}) || ClaimSettled(c, nil) {
		t.Error("a word is kept until what it was about is granted")
	}
	if !ClaimSettled(c, []*fleet.ClusterRegistration{granted(r)}) {
		t.Error("a word that was followed must not let another request of that name in")
	}
	if out := ReleaseClaim(c); out.Annotations[fleet.AnnotationAcceptRegistration] != "" || c.Annotations[fleet.AnnotationAcceptRegistration] == "" {
		t.Error("the word is taken off a copy")
	}
}
