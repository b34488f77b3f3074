package release

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	us   = Owner{AgentNamespace: "fleet", BundleID: "web"}
	id   = ID{Namespace: "prod", Name: "web"}
	want = Wanted{ID: id, Self: us, DeploymentID: "s-2:b"}
)

// at is a release of ours in a state, made for a deployment id.
func at(state State, deployment string) Observed {
	o := Observed{ID: id, State: state, Revision: 3, Memory: Record{Owner: us, DeploymentID: deployment}}
	if state == Deployed {
		o.Good, o.GoodState, o.GoodID = 3, Deployed, deployment
	}
	return o
}

// with changes a copy of something.
func with[T any](in T, change func(*T)) T {
	change(&in)
	return in
}

func TestDecide(t *testing.T) {
	absent := Observed{ID: id, State: Absent}
	cases := map[string]struct {
		why      string
		observed Observed
		wanted   Wanted
		verb     Verb
		reason   string
	}{
		"New": {
			why:      "nothing is there",
			observed: absent, wanted: want, verb: Install, reason: "New",
		},
		"SameIDButMissing": {
			why:      "another client removed the release; the id has not changed, but the workload is gone",
			observed: absent, wanted: with(want, func(w *Wanted) { w.Applied = w.DeploymentID }),
			verb: Install, reason: "ReleaseMissing",
		},
		"UpToDate": {
			why:      "a deployment of the same id costs nothing",
			observed: at(Deployed, "s-2:b"), wanted: want, verb: Keep, reason: ReasonUpToDate,
		},
		"Changed": {
			why:      "the manager wants something else",
			observed: at(Deployed, "s-1:a"), wanted: want, verb: Upgrade, reason: "Changed",
		},
		"ByTheReference": {
			why:      "a release without a deployment id was made by the reference: taken over without a redeploy",
			observed: at(Deployed, ""), wanted: with(want, func(w *Wanted) { w.Applied = w.DeploymentID }),
			verb: Keep, reason: ReasonUpToDate,
		},
		"ByTheReferenceButOld": {
			why:      "the reference had deployed something else",
			observed: at(Deployed, ""), wanted: with(want, func(w *Wanted) { w.Applied = "s-1:a" }),
			verb: Upgrade, reason: "Changed",
		},
		"ByTheReferenceAfterUs": {
			why:      "handed to the reference and back: what it reported counts, not what this agent knew before",
			observed: at(Deployed, ""), wanted: with(want, func(w *Wanted) { w.Applied, w.Reported = "s-1:a", w.DeploymentID }),
			verb: Keep, reason: ReasonUpToDate,
		},
		"ByTheReferenceAfterUsButOld": {
			why:      "the same, and the reference had gone on to something else meanwhile",
			observed: at(Deployed, ""), wanted: with(want, func(w *Wanted) { w.Applied, w.Reported = w.DeploymentID, "s-3:c" }),
			verb: Upgrade, reason: "Changed",
		},
		"Failed": {
			why:      "a failure that may pass is tried again",
			observed: at(Failed, "s-2:b"), wanted: want, verb: Upgrade, reason: "Retry",
		},
		"FailedAtFirst": {
			why:      "an install that failed is an install again: an upgrade would leave out its install hooks",
			observed: with(at(Failed, "s-2:b"), func(o *Observed) { o.Fresh = true }), wanted: want, verb: Install, reason: "Retry",
		},
		"FailedForGood": {
			why:      "a failure that cannot pass is not repeated for ever",
			observed: at(Failed, "s-2:b"), wanted: with(want, func(w *Wanted) { w.Settled = w.DeploymentID }),
			verb: Keep, reason: ReasonSettled,
		},
		"FailedForGoodBeforeAnyWrite": {
			why:      "a template error leaves no release behind",
			observed: absent, wanted: with(want, func(w *Wanted) { w.Settled = w.DeploymentID }),
			verb: Keep, reason: ReasonSettled,
		},
		"FailedThenChanged": {
			why:      "another id is another attempt",
			observed: at(Failed, "s-1:a"), wanted: with(want, func(w *Wanted) { w.Settled = "s-1:a" }),
			verb: Upgrade, reason: "Retry",
		},
		"CorrectionFailed": {
			why: "a failed rollback on top of the right revision is no reason to deploy again",
			observed: with(at(Failed, "s-2:b"), func(o *Observed) {
				o.Good, o.GoodState, o.GoodID = 2, Deployed, "s-2:b"
			}),
			wanted: with(want, func(w *Wanted) { w.Applied = w.DeploymentID }),
			verb:   Keep, reason: ReasonUpToDate,
		},
		"PendingInstall": {
			why:      "killed while installing: without a mark Helm refuses for ever",
			observed: at(PendingInstall, "s-2:b"), wanted: want, verb: Fail, reason: "Interrupted",
		},
		"PendingUpgrade": {
			why:      "killed while upgrading",
			observed: at(PendingUpgrade, "s-2:b"), wanted: want, verb: Fail, reason: "Interrupted",
		},
		"PendingRollback": {
			why:      "killed while drift was corrected",
			observed: at(PendingRollback, "s-2:b"), wanted: want, verb: Fail, reason: "Interrupted",
		},
		"Uninstalling": {
			why:      "killed while uninstalling, and wanted again: what is left of it is not removed",
			observed: at(Uninstalling, "s-1:a"), wanted: want, verb: Fail, reason: "Interrupted",
		},
		"UninstalledWithHistory": {
			why:      "helm uninstall --keep-history blocks the name",
			observed: at(Uninstalled, "s-1:a"), wanted: want, verb: Forget, reason: "Uninstalled",
		},
		"Unreadable": {
			why:      "a record that cannot be decoded blocks the name",
			observed: Observed{ID: id, State: Unreadable}, wanted: with(want, func(w *Wanted) { w.Applied = "s-1:a" }),
			verb: Purge, reason: "Unreadable",
		},
		"UnreadableOfWhom": {
			why:      "the owner of an unreadable record that this deployment does not know is unknown",
			observed: Observed{ID: id, State: Unreadable}, wanted: want, verb: Refuse, reason: ReasonForeignRelease,
		},
		"UnreadableTaken": {
			why:      "unless the bundle says so",
			observed: Observed{ID: id, State: Unreadable}, wanted: with(want, func(w *Wanted) { w.TakeOwnership = true }),
			verb: Purge, reason: "Unreadable",
		},
		"Superseded": {
			why:      "killed between two records: nothing is deployed",
			observed: at(Superseded, "s-1:a"), wanted: want, verb: Upgrade, reason: "Retry",
		},
		"Paused": {
			why:      "a pause stops everything, also what is half done",
			observed: at(PendingUpgrade, "s-2:b"), wanted: with(want, func(w *Wanted) { w.Paused = true }),
			verb: Keep, reason: ReasonPaused,
		},
		"NothingReleased": {
			why:      "a rollout may hold the first deployment back",
			observed: absent, wanted: with(want, func(w *Wanted) { w.DeploymentID = "" }),
			verb: Keep, reason: ReasonNothingWanted,
		},
		"ManagerBehind": {
			why:      "a restored manager must not roll workloads back",
			observed: at(Deployed, "s-3:c"), wanted: with(want, func(w *Wanted) { w.Stale, w.Applied = true, "s-3:c" }),
			verb: Hold, reason: ReasonManagerBehind,
		},
		"RemovedSinceTheBackup": {
			why:      "a restored manager must not install again what it has removed",
			observed: absent, wanted: with(want, func(w *Wanted) { w.MayBeRemoved = true }),
			verb: Hold, reason: ReasonManagerBehind,
		},
		"RemovedSinceTheBackupReported": {
			why:      "its status is as old as the rest",
			observed: absent, wanted: with(want, func(w *Wanted) { w.MayBeRemoved, w.Applied = true, want.DeploymentID }),
			verb: Hold, reason: ReasonManagerBehind,
		},
		"RemovedTooLong": {
			why:      "after ten minutes it is what the manager means",
			observed: absent, wanted: with(want, func(w *Wanted) { w.MayBeRemoved, w.HeldFor = true, BehindLimit }),
			verb: Install, reason: "New",
		},
		"NotRemoved": {
			why:      "the agent has lost its records, and the release is there",
			observed: at(Deployed, "s-2:b"), wanted: with(want, func(w *Wanted) { w.MayBeRemoved, w.Applied = true, "s-2:b" }),
			verb: Keep, reason: ReasonUpToDate,
		},
		"ManagerBehindTooLong": {
			why:      "after ten minutes it is what the manager means",
			observed: at(Deployed, "s-3:c"),
			wanted: with(want, func(w *Wanted) {
				w.Stale, w.Applied, w.HeldFor = true, "s-3:c", BehindLimit
			}),
			verb: Upgrade, reason: "Changed",
		},
		"ManagerBehindSameContent": {
			why:      "an older generation that wants what runs does no harm",
			observed: at(Deployed, "s-2:b"), wanted: with(want, func(w *Wanted) { w.Stale, w.Applied = true, "s-2:b" }),
			verb: Keep, reason: ReasonUpToDate,
		},
		"ForeignRelease": {
			why:      "a release that a person made by hand is not ours",
			observed: with(at(Deployed, ""), func(o *Observed) { o.Memory.Owner = Owner{} }), wanted: want,
			verb: Refuse, reason: ReasonForeignRelease,
		},
		"ForeignReleaseTaken": {
			why:      "unless the bundle says so",
			observed: with(at(Deployed, ""), func(o *Observed) { o.Memory.Owner = Owner{} }),
			wanted:   with(want, func(w *Wanted) { w.TakeOwnership = true }),
			verb:     Upgrade, reason: "Changed",
		},
		"OtherAgent": {
			why: "two agents in one cluster never touch each other's releases",
			observed: with(at(Deployed, ""), func(o *Observed) {
				o.Memory.Owner = Owner{AgentNamespace: "local", BundleID: "web"}
			}),
			wanted: with(want, func(w *Wanted) { w.TakeOwnership = true }),
			verb:   Refuse, reason: ReasonForeignRelease,
		},
		"RenamedBeforeTheOldIsWithdrawn": {
			why:      "the manager writes the new bundle first: the release must survive until it can be handed over",
			observed: ownedBy("old"), wanted: among(want, "old", Peer{ID: id, Live: true, SameRepository: true}),
			verb: Hold, reason: ReasonReleaseTaken,
		},
		"RenamedAfterTheOldIsWithdrawn": {
			why:      "now the new bundle takes the release over",
			observed: ownedBy("old"), wanted: among(want, "old", Peer{ID: id, SameRepository: true}),
			verb: Upgrade, reason: "Changed",
		},
		"RenamedWithTheSameContent": {
			why:      "the new bundle is what the old one was; while the release is the old one's, each would wait for the other",
			observed: with(ownedBy("old"), func(o *Observed) { o.State, o.Good, o.GoodID, o.GoodState = Deployed, 3, "s-2:b", Deployed }),
			wanted:   among(want, "old", Peer{ID: id, SameRepository: true}),
			verb:     Upgrade, reason: "Changed",
		},
		"OtherRepositoryClaims": {
			why:      "two repositories want the same release name",
			observed: ownedBy("other"), wanted: among(want, "other", Peer{ID: id, Live: true}),
			verb: Refuse, reason: ReasonForeignRelease,
		},
		"OwnerUnknown": {
			why:      "an orphan of another bundle is not taken without being asked to",
			observed: ownedBy("gone"), wanted: want, verb: Refuse, reason: ReasonForeignRelease,
		},
		"OwnerUnknownTaken": {
			why:      "asked to",
			observed: ownedBy("gone"), wanted: with(want, func(w *Wanted) { w.TakeOwnership = true }),
			verb: Upgrade, reason: "Changed",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, c.why, Decide(c.observed, c.wanted), c.verb, c.reason) })
	}
}

func TestDecideWithdrawn(t *testing.T) {
	gone := with(want, func(w *Wanted) { w.Order = "o1" })
	cases := map[string]struct {
		why      string
		observed Observed
		wanted   Wanted
		verb     Verb
		reason   string
	}{
		"Withdrawn": {
			why:      "the mark, and only the mark, uninstalls",
			observed: at(Deployed, "s-2:b"), wanted: gone, verb: Uninstall, reason: "Withdrawn",
		},
		"Gone": {
			why:      "after that it is acknowledged",
			observed: Observed{ID: id, State: Absent}, wanted: gone, verb: Acknowledge, reason: "Uninstalled",
		},
		"Paused": {
			why:      "the mark is the manager's decision, also for a paused deployment",
			observed: at(Deployed, "s-2:b"), wanted: with(gone, func(w *Wanted) { w.Paused = true }),
			verb: Uninstall, reason: "Withdrawn",
		},
		"Interrupted": {
			why:      "killed while uninstalling",
			observed: at(Uninstalling, "s-2:b"), wanted: gone, verb: Uninstall, reason: "Withdrawn",
		},
		"KeepResources": {
			why:      "objects stay where the deployment says so",
			observed: at(Deployed, "s-2:b"), wanted: with(gone, func(w *Wanted) { w.KeepResources = true }),
			verb: Forget, reason: "KeepResources",
		},
		"KeepResourcesOfTheRelease": {
			why:      "or where it said so when it was deployed",
			observed: with(at(Deployed, "s-2:b"), func(o *Observed) { o.Memory.KeepResources = true }), wanted: gone,
			verb: Forget, reason: "KeepResources",
		},
		"FromThePast": {
			why:      "a manager that was restored from a backup orders what it has taken back since",
			observed: at(Deployed, "s-2:b"), wanted: with(gone, func(w *Wanted) { w.Stale, w.HeldFor = true, BehindLimit-time.Second }),
			verb: Hold, reason: ReasonManagerBehind,
		},
		"FromThePastTooLong": {
			why:      "after ten minutes it is what the manager means",
			observed: at(Deployed, "s-2:b"), wanted: with(gone, func(w *Wanted) { w.Stale, w.HeldFor = true, BehindLimit }),
			verb: Uninstall, reason: "Withdrawn",
		},
		"FromThePastAndGone": {
			why:      "there is nothing to protect",
			observed: Observed{ID: id, State: Absent}, wanted: with(gone, func(w *Wanted) { w.Stale = true }),
			verb: Acknowledge, reason: "Uninstalled",
		},
		"AgentElsewhere": {
			why:      "the bundle of an agent is for the place that it has left, or where its successor is: carrying it out would install that agent again",
			observed: Observed{ID: id, State: Absent}, wanted: with(want, func(w *Wanted) { w.Agent = true }), verb: Hold, reason: ReasonAgentElsewhere,
		},
		"AgentElsewhereByThePredecessor": {
			why: "what the agent before has made in its own place is not taken over, but comes to its end",
			observed: with(at(Deployed, "s-2:b"), func(o *Observed) {
				o.Memory.Owner.AgentNamespace = "before"
			}),
			wanted: with(want, func(w *Wanted) { w.Agent, w.Predecessor = true, Predecessor{Namespace: "before"} }), verb: Hold, reason: ReasonAgentElsewhere,
		},
		"AgentHere": {
			why:      "an agent in its own place is updated",
			observed: Observed{ID: ID{Namespace: "fleet", Name: "web"}, State: Absent}, wanted: with(want, func(w *Wanted) { w.Agent, w.ID.Namespace = true, "fleet" }),
			verb: Install, reason: "New",
		},
		"AgentElsewhereUnheard": {
			why:      "without a manager it is not known whether it is the agent's, or a user's bundle whose name begins like that",
			observed: at(Deployed, "s-2:b"), wanted: with(want, func(w *Wanted) { w.Agent, w.Unreported = true, true }), verb: Keep, reason: ReasonUpToDate,
		},
		"Agent": {
			why: "an agent that removes itself cannot be reached any more",
			observed: with(at(Deployed, "s-2:b"), func(o *Observed) {
				o.Memory.Owner.BundleID = "fleet-agent-c1"
			}),
			wanted: with(gone, func(w *Wanted) { w.Self.BundleID, w.Agent = "fleet-agent-c1", true }),
			verb:   Forget, reason: "Agent",
		},
		"Abandoned": {
			why:      "a person ends a removal that never succeeds",
			observed: at(Uninstalling, "s-2:b"), wanted: with(gone, func(w *Wanted) { w.Abandon = true }),
			verb: Forget, reason: "Abandoned",
		},
		"NotOurs": {
			why:      "a release that another bundle has taken over is not ours to remove",
			observed: ownedBy("new"), wanted: gone, verb: Acknowledge, reason: "Uninstalled",
		},
		"HeirWaits": {
			why:      "a renamed bundle keeps its release name: the new one takes it over, nothing is uninstalled",
			observed: at(Deployed, "s-2:b"), wanted: among(gone, "new", Peer{ID: id, Live: true, SameRepository: true, Tried: true}),
			verb: Hold, reason: ReasonWaitsForOthers,
		},
		"SiblingUntried": {
			why:      "a moved path may take over objects of the old one, so the new one goes first",
			observed: at(Deployed, "s-2:b"), wanted: among(gone, "new", Peer{ID: ID{"prod", "new"}, Live: true, SameRepository: true}),
			verb: Hold, reason: ReasonWaitsForOthers,
		},
		"SiblingTried": {
			why:      "a sibling that failed does not stop the removal",
			observed: at(Deployed, "s-2:b"), wanted: among(gone, "new", Peer{ID: ID{"prod", "new"}, Live: true, SameRepository: true, Tried: true}),
			verb: Uninstall, reason: "Withdrawn",
		},
		"OtherRepository": {
			why:      "deployments of other repositories have nothing to do with it",
			observed: at(Deployed, "s-2:b"), wanted: among(gone, "new", Peer{ID: ID{"prod", "new"}, Live: true}),
			verb: Uninstall, reason: "Withdrawn",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, c.why, Decide(c.observed, c.wanted), c.verb, c.reason) })
	}
}

// A held order says for how long it is held, and no longer than promised.
func TestDecideHeldFor(t *testing.T) {
	w := with(want, func(w *Wanted) { w.Stale, w.Applied, w.HeldFor = true, "s-3:c", 4*time.Minute })
	if got := Decide(at(Deployed, "s-3:c"), w).After; got != 6*time.Minute {
		t.Errorf("want 6m, got %v", got)
	}
}

func check(t *testing.T, why string, got Action, verb Verb, reason string) {
	t.Helper()
	want := Action{Verb: verb, Reason: reason, Message: got.Message, After: got.After}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n-want +got\n%s", why, diff)
	}
	if got.Message == "" {
		t.Errorf("%s: no message", got.Reason)
	}
	if (got.Verb == Hold) != (got.After > 0) {
		t.Errorf("%s after %v: a hold, and nothing else, has a time", got.Verb, got.After)
	}
}

func ownedBy(bundle string) Observed {
	return with(at(Deployed, "s-1:a"), func(o *Observed) { o.Memory.Owner.BundleID = bundle })
}

func among(w Wanted, name string, p Peer) Wanted {
	w.Peers = map[string]Peer{name: p}
	return w
}
