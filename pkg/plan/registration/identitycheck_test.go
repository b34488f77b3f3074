package registration

import (
	"testing"
	"time"
)

func TestIdentityCheck(t *testing.T) {
	known := func(uid string) IdentityAnswer { return IdentityAnswer{Known: uid, Interval: time.Minute} }
	rival := func(uid string) IdentityAnswer { a := known(uid); a.Rival = true; return a }
	joined := func(uid string) IdentityAnswer { a := known(uid); a.Joined = true; return a }
	slow := func(uid string) IdentityAnswer { a := known(uid); a.Interval = time.Hour; return a }
	times := func(n int, a IdentityAnswer) (out []IdentityAnswer) {
		for range n {
			out = append(out, a)
		}
		return out
	}
	cases := map[string]struct {
		why        string
		own        string
		answers    []IdentityAnswer // a minute apart
		act, claim bool             // after the last one
	}{
		"First":        {why: "no agent has said anything yet", own: "a", answers: times(1, known("")), act: true, claim: true},
		"Same":         {why: "the agent was started again", own: "a", answers: times(1, known("a")), act: true},
		"Clone":        {why: "the credential is another cluster's", own: "b", answers: times(1, known("a"))},
		"CloneAlive":   {why: "as long as the agent there shows itself", own: "b", answers: append(times(9, known("a")), rival("a"))},
		"CloneWaits":   {why: "it takes some check-ins to be sure", own: "b", answers: times(4, known("a"))},
		"Rebuilt":      {why: "nothing was seen of the cluster before", own: "b", answers: times(6, known("a")), act: true, claim: true},
		"RebuiltAgain": {why: "and it has said so", own: "b", answers: append(times(6, known("a")), known("b")), act: true},
		"NotSaid":      {why: "a manager that does not keep it hinders nothing", own: "b", answers: append(times(6, known("a")), known("")), act: true, claim: true},
		"Slow":         {why: "the other agent may check in as seldom", own: "b", answers: times(30, slow("a"))},
		"Returns":      {why: "the cluster before was away for a while", own: "b", answers: append(times(6, known("a")), rival("a"))},
		"Registered":   {why: "who registers with the clientID takes the Cluster", own: "b", answers: times(1, joined("a")), act: true, claim: true},
		"Taken":        {why: "another cluster has taken it meanwhile", own: "a", answers: append(times(3, known("a")), known("b"))},
		"Unknown":      {why: "a cluster without an identity of its own is not held up", answers: times(1, known("a")), act: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := IdentityCheck{Own: c.own}
			var act, claim bool
			for i, a := range c.answers {
				act, claim = s.Observe(a, noon.Add(time.Duration(i)*time.Minute))
			}
			if act != c.act || claim != c.claim {
				t.Errorf("%s: act %v, claim %v", c.why, act, claim)
			}
		})
	}
}
