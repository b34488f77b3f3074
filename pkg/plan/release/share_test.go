package release

import (
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

func TestClaimOf(t *testing.T) {
	theirs := ID{Namespace: "prod", Name: "other"}
	peers := func(p ...Peer) Wanted {
		w := Wanted{ID: id, Self: us, Peers: map[string]Peer{}}
		for i, one := range p {
			one.ID = theirs
			w.Peers[string(rune('a'+i))] = one
		}
		return w
	}
	cases := map[string]struct {
		why    string
		wanted Wanted
		own    []ID
		claim  Claim
		bundle string
	}{
		"NoPeer":        {why: "no deployment of this agent is known under that name", wanted: peers(), claim: Unrelated},
		"Own":           {why: "the deployment was renamed", wanted: peers(), own: []ID{theirs}, claim: Ceded},
		"Wanted":        {why: "the other bundle is wanted as well", wanted: peers(Peer{SameRepository: true, Live: true}), claim: Shared, bundle: "a"},
		"Withdrawn":     {why: "a renamed bundle passes its objects on", wanted: peers(Peer{SameRepository: true}), claim: Ceded},
		"OtherWanted":   {why: "another repository's", wanted: peers(Peer{Live: true}), claim: Foreign, bundle: "a"},
		"OtherGone":     {why: "another repository's objects are not passed on", wanted: peers(Peer{}), claim: Unrelated},
		"HeirIsWanted":  {why: "of two with one release the wanted one counts", wanted: peers(Peer{SameRepository: true}, Peer{SameRepository: true, Live: true}), claim: Shared, bundle: "b"},
		"OtherHeir":     {why: "also where that one is another repository's", wanted: peers(Peer{SameRepository: true}, Peer{Live: true}), claim: Foreign, bundle: "b"},
		"OwnBeforePeer": {why: "what the deployment made itself stays its own", wanted: peers(Peer{SameRepository: true, Live: true}), own: []ID{theirs}, claim: Ceded},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			claim, bundle := c.wanted.ClaimOf(theirs, c.own)
			if claim != c.claim || bundle != c.bundle {
				t.Errorf("%s: got %v %q, want %v %q", c.why, claim, bundle, c.claim, c.bundle)
			}
		})
	}
}

// Taking an object over moves it from one bundle to the other, which then lacks it:
// the texts about two bundles never advise it.
func TestTextsOfTwoBundles(t *testing.T) {
	for _, text := range []string{
		SharedText("Service web/web-frontend", "shops-frontend", "shops-web", ID{Namespace: "web", Name: "shops-web"}),
		ForeignText("Service web/web-frontend", "shops-web", ID{Namespace: "web", Name: "shops-web"}),
	} {
		if got := condition.Message("web/service.yaml: " + text); strings.HasSuffix(got, "…") {
			t.Errorf("a condition cuts off what helps: %q", got)
		}
		if strings.Contains(text, "takeOwnership") || !strings.Contains(text, "bundle shops-web") || !strings.Contains(text, "remove it from") {
			t.Errorf("got %q", text)
		}
	}
}

func TestReclaimed(t *testing.T) {
	cases := map[string]struct {
		why                      string
		there, made, has, marked bool
		want                     bool
	}{
		"TakerGone":       {why: "the taker was uninstalled and its object left for us", marked: true, want: true},
		"ChangedByHand":   {why: "an object that Fleet did not mark is drift like any other"},
		"TakerHasItStill": {why: "helm.takeOwnership was meant", there: true, made: true, has: true, marked: true},
		"TakerGaveItUp":   {why: "a new version of the taker does not have it any more", there: true, made: true, marked: true, want: true},
		"AnotherAgent":    {why: "what another agent has is not looked into", there: true, marked: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Reclaimed(c.there, c.made, c.has, c.marked); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
