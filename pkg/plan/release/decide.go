package release

import (
	"fmt"
	"sort"
	"time"
)

// A Verb is one thing to do with a release.
type Verb string

// The verbs. Keep, Hold and Refuse touch nothing; after the others the release
// is observed again. Install also takes up an install that did not succeed.
// Fail marks an interrupted revision as failed, Resume takes up a correction of
// drift that was interrupted, Mend marks the good revision as deployed again,
// Purge removes records that cannot be read, Forget removes the records and
// leaves the objects, Acknowledge reports that a withdrawn deployment is gone.
const (
	Keep        Verb = "keep"
	Hold        Verb = "hold"
	Refuse      Verb = "refuse"
	Install     Verb = "install"
	Upgrade     Verb = "upgrade"
	Fail        Verb = "fail"
	Resume      Verb = "resume"
	Mend        Verb = "mend"
	Purge       Verb = "purge"
	Uninstall   Verb = "uninstall"
	Forget      Verb = "forget"
	Acknowledge Verb = "acknowledge"
)

// Reasons of actions that end in a status.
const (
	ReasonUpToDate       = "UpToDate"
	ReasonByHand         = "ChangedByHand"
	ReasonPaused         = "Paused"
	ReasonSettled        = "FailedForGood"
	ReasonManagerBehind  = "ManagerBehind"
	ReasonReleaseTaken   = "ReleaseTaken"
	ReasonForeignRelease = "ForeignRelease"
	ReasonNothingWanted  = "NothingWanted"
	ReasonWaitsForOthers = "WaitsForOthers"

	// ReasonOutsideWindow: the cluster is outside of its change windows.
	ReasonOutsideWindow = "OutsideWindow"

	ReasonWaitsForManager = "WaitsForManager"
	ReasonAgentElsewhere  = "AgentElsewhere"
)

// Limits of waiting.
const (
	// BehindLimit is how long a manager's older order is held back, in case the
	// manager was restored from a backup and will catch up by itself.
	BehindLimit = 10 * time.Minute
	// HandLimit is how long a manual change of a release may take before it is regarded as
	// given up: longer than Helm's own limit of 5 minutes.
	HandLimit = 10 * time.Minute
	// othersDelay is when a wait for others is checked again if no change of them is seen.
	othersDelay = 5 * time.Second
	// managerDelay is the same for a wait for the manager.
	managerDelay = time.Minute
)

// An Action is the next step, and why.
type Action struct {
	Verb    Verb
	Reason  string        // one PascalCase word
	Message string        // in words
	After   time.Duration // Hold: when to look again
}

// Decide returns the next step for one release. The same arguments give the
// same step; a step that was taken in full is not returned again.
//
// Outside of the change windows of the cluster it deploys no version that did not run
// before, and uninstalls nothing.
func Decide(o Observed, w Wanted) Action {
	return HoldOutside(decide(o, w), w, w.Applied != w.DeploymentID)
}

// HoldOutside returns a, or a wait if the change windows of the cluster do not allow a now.
// fresh reports that a deploys something that did not run before. What only repairs a release
// that ran before, or its records, is always allowed.
func HoldOutside(a Action, w Wanted, fresh bool) Action {
	if w.Closed == "" || !NeedsWindow(a, fresh) {
		return a
	}
	return Action{Verb: Hold, Reason: ReasonOutsideWindow, Message: w.Closed, After: w.OpensIn}
}

// NeedsWindow reports whether an action is not allowed outside of the change windows; fresh is
// as for HoldOutside.
func NeedsWindow(a Action, fresh bool) bool {
	return a.Verb == Uninstall || fresh && (a.Verb == Install || a.Verb == Upgrade)
}

func decide(o Observed, w Wanted) Action {
	if w.Order != "" {
		return withdrawn(o, w)
	}
	if a, held := decideHold(w); held {
		return a
	}
	if w.MayBeRemoved && o.State == Absent && w.HeldFor < BehindLimit {
		return Action{
			Verb: Hold, Reason: ReasonManagerBehind, After: BehindLimit - w.HeldFor,
			Message: "the manager was restored from a backup, and this may have been removed since; not installed for 10 minutes in case it catches up",
		}
	}
	if a, stop := decideForeign(o, w); stop {
		return a
	}
	return decideLive(o, w)
}

// decideHold decides whether anything may happen at all.
func decideHold(w Wanted) (Action, bool) {
	switch {
	case w.Paused:
		return Action{Verb: Keep, Reason: ReasonPaused, Message: "paused"}, true
	case w.DeploymentID == "":
		return Action{Verb: Keep, Reason: ReasonNothingWanted, Message: "nothing is released to this cluster yet"}, true
	case w.Agent && !w.Unreported && w.ID.Namespace != w.Self.AgentNamespace:
		return Action{
			Verb: Hold, Reason: ReasonAgentElsewhere, After: managerDelay,
			Message: fmt.Sprintf("this agent lives in namespace %s, and what is wanted is one in %s: it makes no other agent than itself, and waits until the manager says what it is to be, or until the other one takes over",
				w.Self.AgentNamespace, w.ID.Namespace),
		}, true
	case w.Stale && w.DeploymentID != w.Applied && w.HeldFor < BehindLimit:
		return Action{
			Verb: Hold, Reason: ReasonManagerBehind, After: BehindLimit - w.HeldFor,
			Message: "the manager asks for an older state than it did before; held back for 10 minutes in case it catches up",
		}, true
	}
	return Action{}, false
}

// decideLive decides about a release that is wanted and that this deployment owns or may take.
func decideLive(o Observed, w Wanted) Action {
	if a, half := decideUnfinished(o, w); half {
		return a
	}
	if w.Settled == w.DeploymentID {
		return noAction()
	}
	if o.State == Absent {
		if w.Applied == w.DeploymentID {
			return Action{Verb: Install, Reason: "ReleaseMissing", Message: "the release is gone"}
		}
		return Action{Verb: Install, Reason: "New", Message: "not installed yet"}
	}
	if isWanted(o, w) {
		return keepRelease(o)
	}
	if o.State == Deployed && w.inherits(o) {
		return inherit(w)
	}
	if o.State == Deployed {
		return Action{Verb: Upgrade, Reason: "Changed", Message: "another deployment is wanted"}
	}
	a := Action{Verb: Upgrade, Reason: "Retry", Message: fmt.Sprintf("revision %d is %s", o.Revision, o.State)}
	if o.Fresh {
		a.Verb = Install // an upgrade would leave out what the chart does on install only
	}
	return a
}

// decideUnfinished decides about a release whose last operation stopped half-way.
func decideUnfinished(o Observed, w Wanted) (Action, bool) {
	interrupted := fmt.Sprintf("revision %d was interrupted (%s)", o.Revision, o.State)
	switch o.State {
	case Unreadable:
		return Action{Verb: Purge, Reason: "Unreadable", Message: "a record of the release cannot be read"}, true
	case Uninstalled:
		return Action{Verb: Forget, Reason: "Uninstalled", Message: "the release was uninstalled and left records"}, true
	case PendingInstall, PendingUpgrade, PendingRollback:
		if a, busy := atWork(o, w); busy {
			return a, true
		}
		if o.State == PendingRollback && !o.Hand && w.Correct && o.GoodID != "" && o.GoodID == w.DeploymentID {
			return Action{Verb: Resume, Reason: "Interrupted", Message: interrupted}, true
		}
		return Action{Verb: Fail, Reason: "Interrupted", Message: interrupted}, true
	case Uninstalling:
		if w.Unreported {
			return Action{
				Verb: Hold, Reason: ReasonWaitsForManager, After: managerDelay,
				Message: "an uninstall was interrupted; waits for the manager to say whether the release is wanted",
			}, true
		}
		return Action{Verb: Fail, Reason: "Interrupted", Message: "an uninstall was interrupted, and the release is wanted: nothing more is removed"}, true
	}
	return Action{}, false
}

// atWork waits for a manual change of the release.
func atWork(o Observed, w Wanted) (Action, bool) {
	since := w.Now.Sub(o.Since)
	if !o.Hand || since >= HandLimit || since <= -HandLimit {
		return Action{}, false
	}
	return Action{
		// No event reports the end of the manual change.
		Verb: Hold, Reason: ReasonByHand, After: min(HandLimit-since, othersDelay),
		Message: fmt.Sprintf("revision %d is being made by hand (%s); waits for it, for 10 minutes at most", o.Revision, o.State),
	}, true
}

// keepRelease leaves the release as it is, but for a record that a correction of drift
// left wrong when it was cut off.
func keepRelease(o Observed) Action {
	switch {
	case o.Hand:
		return Action{Verb: Keep, Reason: ReasonByHand, Message: fmt.Sprintf(
			"revision %d was made by hand; the objects are compared with revision %d", o.Revision, o.Good)}
	case o.GoodState == Superseded:
		return Action{Verb: Mend, Reason: "Interrupted", Message: fmt.Sprintf("revision %d runs, and is not marked as deployed", o.Good)}
	}
	return Action{Verb: Keep, Reason: ReasonUpToDate, Message: "up to date"}
}

// isWanted reports whether the release is what is wanted. A release by rancher/fleet carries no
// deployment id: there the reported status decides. A failed revision on top of a good one
// that was brought about before is a correction of drift that did not succeed; deploying
// the same again would not help. If the newest record says that another came after it, it
// is not known what runs. If a removal was interrupted, something is missing. A release
// that still belongs to another deployment has to be taken over, even if it is the same.
func isWanted(o Observed, w Wanted) bool {
	if o.Good == 0 || !w.owns(o) || o.State == Superseded || w.Running(o) != w.DeploymentID || o.Description == InterruptedText(Uninstalling) {
		return false
	}
	return o.State == Deployed || w.Applied == w.DeploymentID
}

func noAction() Action {
	return Action{
		Verb: Keep, Reason: ReasonSettled,
		Message: "the last attempt failed for good and is not repeated until something else is wanted",
	}
}

// withdrawn decides about a release that is to go.
func withdrawn(o Observed, w Wanted) Action {
	if o.State == Absent {
		return Action{Verb: Acknowledge, Reason: "Uninstalled", Message: "the release is gone"}
	}
	if w.inherits(o) {
		if a, waits := w.awaitPredecessor(o); waits {
			return a
		}
	} else if !w.owns(o) {
		return Action{Verb: Acknowledge, Reason: "Uninstalled", Message: "the release belongs to another deployment now"}
	}
	if o.State == Unreadable {
		return Action{Verb: Purge, Reason: "Unreadable", Message: "a record of the release cannot be read"}
	}
	if w.Stale && w.HeldFor < BehindLimit {
		return Action{
			Verb: Hold, Reason: ReasonManagerBehind, After: BehindLimit - w.HeldFor,
			Message: "the manager orders a removal as it may have done before it was restored; held back for 10 minutes in case it catches up",
		}
	}
	if heir := heirOf(w); heir != "" {
		return Action{
			Verb: Hold, Reason: ReasonWaitsForOthers, After: othersDelay,
			Message: fmt.Sprintf("waits until bundle %s has taken over release %s", heir, w.ID),
		}
	}
	switch {
	case w.Abandon:
		return Action{Verb: Forget, Reason: "Abandoned", Message: "abandoned: the release is forgotten, its objects stay"}
	case w.Agent:
		return Action{Verb: Forget, Reason: "Agent", Message: "an agent does not uninstall itself"}
	case o.State == Uninstalled:
		return Action{Verb: Forget, Reason: "Uninstalled", Message: "the release was uninstalled and left records"}
	case w.KeepResources || o.Memory.KeepResources:
		return Action{Verb: Forget, Reason: "KeepResources", Message: "keepResources is set: the objects stay"}
	}
	if late := untriedDeployment(w); late != "" {
		return Action{
			Verb: Hold, Reason: ReasonWaitsForOthers, After: othersDelay,
			Message: fmt.Sprintf("waits until bundle %s of the same repository was tried", late),
		}
	}
	if isPending(o.State) {
		if a, busy := atWork(o, w); busy {
			return a
		}
	}
	return Action{Verb: Uninstall, Reason: "Withdrawn", Message: "withdrawn by the manager"}
}

// isPending reports whether a revision is being made.
func isPending(s State) bool {
	return s == PendingInstall || s == PendingUpgrade || s == PendingRollback
}

// heirOf names a live deployment of the same repository that wants this very
// release. It takes the release over instead of installing it again. While it
// cannot do so, nothing of the release is removed.
func heirOf(w Wanted) string {
	return firstPeer(w, func(p Peer) bool { return p.Live && p.SameRepository && p.ID == w.ID })
}

// untriedDeployment names a live deployment of the same repository that was not tried
// yet: it may be about to take over objects of this one.
func untriedDeployment(w Wanted) string {
	return firstPeer(w, func(p Peer) bool { return p.Live && p.SameRepository && !p.Tried })
}

// firstPeer is the first bundle id in order for which f is true.
func firstPeer(w Wanted, f func(Peer) bool) string {
	var names []string
	for name, p := range w.Peers {
		if f(p) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	sort.Strings(names)
	return names[0]
}
