package release

import (
	"fmt"
	"sort"
	"time"
)

// A Verb is one thing to do with a release.
type Verb string

// The verbs. Keep, Hold and Refuse touch nothing; after the others the release
// is observed again. Fail marks an interrupted revision as failed, Purge
// removes records that are of no use, Forget removes the records and leaves
// the objects, Acknowledge reports that a withdrawn deployment is gone.
const (
	Keep        Verb = "keep"
	Hold        Verb = "hold"
	Refuse      Verb = "refuse"
	Install     Verb = "install"
	Upgrade     Verb = "upgrade"
	Fail        Verb = "fail"
	Purge       Verb = "purge"
	Uninstall   Verb = "uninstall"
	Forget      Verb = "forget"
	Acknowledge Verb = "acknowledge"
)

// Reasons of actions that end in a status.
const (
	ReasonUpToDate       = "UpToDate"
	ReasonPaused         = "Paused"
	ReasonSettled        = "FailedForGood"
	ReasonManagerBehind  = "ManagerBehind"
	ReasonReleaseTaken   = "ReleaseTaken"
	ReasonForeignRelease = "ForeignRelease"
	ReasonNothingWanted  = "NothingWanted"
	ReasonWaitsForOthers = "WaitsForOthers"
)

// Limits of waiting.
const (
	// BehindLimit is how long a manager's older order is held back, in case the
	// manager was restored from a backup and will catch up by itself.
	BehindLimit = 10 * time.Minute
	// othersDelay is after which time a wait for other deployments is looked at
	// again without news of them.
	othersDelay = 5 * time.Second
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
func Decide(o Observed, w Wanted) Action {
	if w.Order != "" {
		return withdrawn(o, w)
	}
	if a, held := hold(w); held {
		return a
	}
	if a, stop := foreign(o, w); stop {
		return a
	}
	return live(o, w)
}

// hold decides whether anything may happen at all.
func hold(w Wanted) (Action, bool) {
	switch {
	case w.Paused:
		return Action{Verb: Keep, Reason: ReasonPaused, Message: "paused"}, true
	case w.DeploymentID == "":
		return Action{Verb: Keep, Reason: ReasonNothingWanted, Message: "nothing is released to this cluster yet"}, true
	case w.Stale && w.DeploymentID != w.Applied && w.HeldFor < BehindLimit:
		return Action{
			Verb: Hold, Reason: ReasonManagerBehind, After: BehindLimit - w.HeldFor,
			Message: "the manager asks for an older state than it did before; held back for 10 minutes in case it catches up",
		}, true
	}
	return Action{}, false
}

// foreign decides about a release of this name that somebody else made.
func foreign(o Observed, w Wanted) (Action, bool) {
	owner := o.Memory.Owner
	if o.State == Absent || o.State == Unreadable || owner == w.Self {
		return Action{}, false
	}
	if w.Settled == w.DeploymentID {
		return settled(), true
	}
	refuse := func(who string) (Action, bool) {
		return Action{
			Verb: Refuse, Reason: ReasonForeignRelease,
			Message: fmt.Sprintf("release %s exists and belongs to %s", o.ID, who),
		}, true
	}
	if owner == (Owner{}) {
		if w.TakeOwnership {
			return Action{}, false
		}
		return refuse("nobody that Fleet knows; set helm.takeOwnership to take it over")
	}
	if owner.AgentNamespace != w.Self.AgentNamespace {
		return refuse(fmt.Sprintf("the Fleet agent in namespace %s", owner.AgentNamespace))
	}
	peer, known := w.Peers[owner.BundleID]
	claims := known && peer.Live && peer.ID == o.ID
	switch {
	case claims && peer.SameRepository:
		return Action{
			Verb: Hold, Reason: ReasonReleaseTaken, After: othersDelay,
			Message: fmt.Sprintf("waits until bundle %s gives up release %s", owner.BundleID, o.ID),
		}, true
	case claims:
		return refuse("bundle " + owner.BundleID)
	case known && peer.SameRepository, w.TakeOwnership:
		return Action{}, false
	}
	return refuse(fmt.Sprintf("bundle %s; set helm.takeOwnership to take it over", owner.BundleID))
}

// live decides about a release that is wanted, and ours or free to take.
func live(o Observed, w Wanted) Action {
	switch o.State {
	case Unreadable:
		return Action{Verb: Purge, Reason: "Unreadable", Message: "a record of the release cannot be read"}
	case Uninstalled:
		return Action{Verb: Purge, Reason: "Uninstalled", Message: "the release was uninstalled and left a record"}
	case PendingInstall, PendingUpgrade, PendingRollback:
		return Action{
			Verb: Fail, Reason: "Interrupted",
			Message: fmt.Sprintf("revision %d was interrupted (%s)", o.Revision, o.State),
		}
	case Uninstalling:
		return Action{Verb: Uninstall, Reason: "Interrupted", Message: "an uninstall was interrupted"}
	}
	if w.Settled == w.DeploymentID {
		return settled()
	}
	if o.State == Absent {
		if w.Applied == w.DeploymentID {
			return Action{Verb: Install, Reason: "ReleaseMissing", Message: "the release is gone"}
		}
		return Action{Verb: Install, Reason: "New", Message: "not installed yet"}
	}
	if has(o, w) {
		return Action{Verb: Keep, Reason: ReasonUpToDate, Message: "up to date"}
	}
	if o.State == Deployed {
		return Action{Verb: Upgrade, Reason: "Changed", Message: "another deployment is wanted"}
	}
	return Action{
		Verb: Upgrade, Reason: "Retry",
		Message: fmt.Sprintf("revision %d is %s", o.Revision, o.State),
	}
}

// has tells whether the release is what is wanted. A release by the reference
// carries no deployment id: there the reported status tells. A failed revision
// on top of a good one that was brought about before is a correction of drift
// that did not succeed; deploying the same again would not help.
func has(o Observed, w Wanted) bool {
	if o.Good == 0 {
		return false
	}
	id := o.GoodID
	if id == "" && o.Memory.Owner == w.Self {
		id = w.Applied
	}
	if id != w.DeploymentID {
		return false
	}
	return o.State == Deployed || w.Applied == w.DeploymentID
}

func settled() Action {
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
	if o.State == Unreadable {
		return Action{Verb: Purge, Reason: "Unreadable", Message: "a record of the release cannot be read"}
	}
	if o.Memory.Owner != w.Self {
		return Action{Verb: Acknowledge, Reason: "Uninstalled", Message: "the release belongs to another deployment now"}
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
	case w.isAgent():
		return Action{Verb: Forget, Reason: "Agent", Message: "an agent does not uninstall itself"}
	case o.State == Uninstalled:
		return Action{Verb: Purge, Reason: "Uninstalled", Message: "the release was uninstalled and left a record"}
	case w.KeepResources || o.Memory.KeepResources:
		return Action{Verb: Forget, Reason: "KeepResources", Message: "keepResources is set: the objects stay"}
	}
	if late := untried(w); late != "" {
		return Action{
			Verb: Hold, Reason: ReasonWaitsForOthers, After: othersDelay,
			Message: fmt.Sprintf("waits until bundle %s of the same repository was tried", late),
		}
	}
	return Action{Verb: Uninstall, Reason: "Withdrawn", Message: "withdrawn by the manager"}
}

// heirOf names a live deployment of the same repository that wants this very
// release. It takes the release over instead of installing it anew, and also
// if it cannot do so at the moment nothing of it is removed.
func heirOf(w Wanted) string {
	return firstPeer(w, func(p Peer) bool { return p.Live && p.SameRepository && p.ID == w.ID })
}

// untried names a live deployment of the same repository that was not tried
// yet: it may be about to take over objects of this one.
func untried(w Wanted) string {
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
