package registration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
	stranger := request("stranger", "a", -time.Minute)
	stranger.Spec.ClientRandom = "another word"
	mine, theirs := &fleet.ClusterRegistrationToken{}, &fleet.ClusterRegistrationToken{}
	mine.OwnerReferences = OwnedByCluster(cluster(false, ""))
	other := cluster(false, "")
	other.UID = types.UID("u2")
	theirs.OwnerReferences = OwnedByCluster(other)
	cases := map[string]struct {
		why      string
		cluster  *fleet.Cluster
		token    *fleet.ClusterRegistrationToken
		siblings []*fleet.ClusterRegistration
		allow    bool
		again    bool
		waits    bool
	}{
		"Predefined":    {why: "a Cluster that was made beforehand waits for its first agent", cluster: cluster(false, "")},
		"Seen":          {why: "it has had an agent", cluster: cluster(true, ""), again: true, waits: true},
		"Granted":       {why: "it has a credential, even if nobody has used it yet", cluster: cluster(false, ""), siblings: []*fleet.ClusterRegistration{before}, again: true, waits: true},
		"Allowed":       {why: "the reference asks nobody", cluster: cluster(true, ""), allow: true, again: true},
		"Accepted":      {why: "a person has said so", cluster: cluster(true, "r"), again: true},
		"AcceptedOther": {why: "another request was meant", cluster: cluster(true, "x"), again: true, waits: true},
		"AcceptedEarlier": {
			why:     "an agent that asked again while it waited is the same one: it knows the word",
			cluster: cluster(true, "earlier"), siblings: []*fleet.ClusterRegistration{earlier}, again: true,
		},
		"AcceptedStranger": {
			why:     "another agent with the same clientID was accepted",
			cluster: cluster(true, "stranger"), siblings: []*fleet.ClusterRegistration{stranger}, again: true, waits: true,
		},
		"ManagersOwn":   {why: "the manager installs this Cluster's agent itself", cluster: cluster(true, ""), token: mine, again: true},
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
			got := JudgeClaim(request("r", "a", 0), c.cluster, token, c.siblings, reclaim)
			if got.Again != c.again || (got.Waits != "") != c.waits {
				t.Errorf("%s: got %+v", c.why, got)
			}
			if c.waits && !strings.Contains(got.Waits, "fleet cluster accept c") {
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
