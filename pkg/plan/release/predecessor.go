package release

import (
	"fmt"
	"strings"
)

// A Predecessor is another agent of the same cluster, whose releases this one
// takes over as they are: the same agent before it moved to another namespace.
type Predecessor struct {
	Namespace string // that it lived in
	Manager   string // installation id of the manager of both
	Lives     bool   // it is still there: nothing of its may be touched
}

// inherits reports whether the agent that this agent takes over from has made a release
// for the same deployment. A release by the agent of another manager is not inherited. A
// release by an agent of rancher/fleet names no manager, and counts as that agent's.
func (w Wanted) inherits(o Observed) bool {
	from := w.Predecessor.Namespace
	by, _, _ := strings.Cut(o.Memory.Manager, "/")
	return (by == "" || by == w.Predecessor.Manager) && from != "" && o.State != Absent && o.Memory.Owner == Owner{AgentNamespace: from, BundleID: w.Self.BundleID}
}

// awaitPredecessor holds an inherited release back while the agent before still works on it.
func (w Wanted) awaitPredecessor(o Observed) (Action, bool) {
	if !w.Predecessor.Lives {
		return Action{}, false
	}
	return Action{
		Verb: Hold, Reason: ReasonReleaseTaken, After: othersDelay,
		Message: fmt.Sprintf("release %s belongs to the Fleet agent in namespace %s, which is still there: waits until it is gone, and then takes the release over",
			o.ID, w.Predecessor.Namespace),
	}, true
}

// inherit takes a release over. What runs stays as it is: the labels of its
// objects and what the release remembers are written once more.
func inherit(w Wanted) Action {
	return Action{
		Verb: Upgrade, Reason: "Inherited",
		Message: "taken over from the Fleet agent in namespace " + w.Predecessor.Namespace,
	}
}
