package release

import "testing"

// An agent that moved to another namespace takes its releases along, once no
// agent is left in the old namespace.
func TestDecidePredecessor(t *testing.T) {
	const old = "before"
	theirs := func(state State, deploymentID, bundle string) Observed {
		o := at(state, deploymentID)
		o.Memory.Owner = Owner{AgentNamespace: old, BundleID: bundle}
		return o
	}
	follows := func(lives bool) Wanted {
		return with(want, func(w *Wanted) { w.Predecessor = Predecessor{Namespace: old, Manager: "m1", Lives: lives} })
	}
	ordered := func(w Wanted) Wanted { return with(w, func(w *Wanted) { w.Order = "o1" }) }
	cases := map[string]struct {
		why      string
		observed Observed
		wanted   Wanted
		verb     Verb
		reason   string
	}{
		"Same": {
			why:      "what runs is what is wanted: only labels and what the release remembers are written",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: follows(false), verb: Upgrade, reason: "Inherited",
		},
		"ByTheReference": {
			why:      "the reference's releases name no deployment",
			observed: theirs(Deployed, "", "web"), wanted: with(follows(false), func(w *Wanted) { w.Applied = w.DeploymentID }),
			verb: Upgrade, reason: "Inherited",
		},
		"Once": {
			why:      "after that it is its own",
			observed: at(Deployed, "s-2:b"), wanted: follows(false), verb: Keep, reason: ReasonUpToDate,
		},
		"StillThere": {
			why:      "two agents would undo each other's work",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: follows(true), verb: Hold, reason: ReasonReleaseTaken,
		},
		"Paused": {
			why:      "taking over is a change",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: with(follows(false), func(w *Wanted) { w.Paused = true }),
			verb: Keep, reason: ReasonPaused,
		},
		"SameManager": {
			why:      "the manager that it had before is the one it has",
			observed: with(theirs(Deployed, "s-2:b", "web"), func(o *Observed) { o.Memory.Manager = "m1/4" }), wanted: follows(false),
			verb: Upgrade, reason: "Inherited",
		},
		"OtherManager": {
			why:      "another manager may have an agent there, which is away for a moment",
			observed: with(theirs(Deployed, "s-2:b", "web"), func(o *Observed) { o.Memory.Manager = "m2/1" }), wanted: follows(false),
			verb: Refuse, reason: ReasonForeignRelease,
		},
		"OtherBundle": {
			why:      "a release of the same name by another deployment is not the one that moved",
			observed: theirs(Deployed, "s-2:b", "db"), wanted: follows(false), verb: Refuse, reason: ReasonForeignRelease,
		},
		"NotConfigured": {
			why:      "an agent without a predecessor touches nothing of another's",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: want, verb: Refuse, reason: ReasonForeignRelease,
		},
		"Interrupted": {
			why:      "what the other left half-way is brought to an end first",
			observed: theirs(PendingUpgrade, "s-2:b", "web"), wanted: follows(false), verb: Fail, reason: "Interrupted",
		},
		"Withdrawn": {
			why:      "an order to remove is for the one that moved here",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: ordered(follows(false)), verb: Uninstall, reason: "Withdrawn",
		},
		"WithdrawnStillThere": {
			why:      "the other may be about to upgrade it",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: ordered(follows(true)), verb: Hold, reason: ReasonReleaseTaken,
		},
		"WithdrawnNotConfigured": {
			why:      "another agent's release is not removed",
			observed: theirs(Deployed, "s-2:b", "web"), wanted: ordered(want), verb: Acknowledge, reason: "Uninstalled",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := Decide(c.observed, c.wanted)
			if a.Verb != c.verb || a.Reason != c.reason {
				t.Errorf("%s: want %s %s, got %s %s (%s)", c.why, c.verb, c.reason, a.Verb, a.Reason, a.Message)
			}
		})
	}
}
