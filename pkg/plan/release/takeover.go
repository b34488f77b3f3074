package release

import "fmt"

// decideForeign decides about a release of this name that has another owner.
func decideForeign(o Observed, w Wanted) (Action, bool) {
	owner := o.Memory.Owner
	if o.State == Absent || w.owns(o) {
		return Action{}, false
	}
	if w.Settled == w.DeploymentID {
		return noAction(), true
	}
	refuse := func(who string) (Action, bool) {
		return Action{
			Verb: Refuse, Reason: ReasonForeignRelease,
			Message: fmt.Sprintf("release %s exists and belongs to %s", o.ID, who),
		}, true
	}
	if owner == (Owner{}) {
		switch {
		case w.TakeOwnership:
			return Action{}, false
		case o.State == Unreadable:
			return refuse("nobody knows whom, since its records cannot be read; set helm.takeOwnership to make it anew")
		}
		return refuse("nobody that Fleet knows; set helm.takeOwnership to take it over")
	}
	if w.inherits(o) {
		return w.awaitPredecessor(o)
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
