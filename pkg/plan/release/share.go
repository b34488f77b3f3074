package release

import (
	"fmt"
	"slices"
)

// A Claim is how the release that an object is marked with relates to a
// deployment that wants the object, too.
type Claim int

// The claims.
const (
	// Unrelated: the release is of no other wanted deployment of this agent.
	Unrelated Claim = iota
	// Ceded: the deployment made the release itself, under another name, or the
	// release is of a deployment of the same repository that is not wanted any
	// more. The object may be taken over.
	Ceded
	// Shared: the release is of a wanted deployment of the same repository.
	Shared
	// Foreign: the release is of a wanted deployment of another repository.
	Foreign
)

// ClaimOf returns the claim of a release on an object that the deployment wants,
// and the bundle that the release is of, where it is Shared or Foreign. own are
// releases that the deployment has made before.
func (w Wanted) ClaimOf(owner ID, own []ID) (claim Claim, bundle string) {
	if slices.Contains(own, owner) {
		return Ceded, ""
	}
	wanted := func(same bool) string {
		return firstPeer(w, func(p Peer) bool { return p.ID == owner && p.Live && p.SameRepository == same })
	}
	if name := wanted(true); name != "" {
		return Shared, name
	}
	if name := wanted(false); name != "" {
		return Foreign, name
	}
	if firstPeer(w, func(p Peer) bool { return p.ID == owner && p.SameRepository }) != "" {
		return Ceded, ""
	}
	return Unrelated, ""
}

// SharedText says that two bundles of a repository have the same object. what
// names the object, other is the bundle that has it.
func SharedText(what, bundle, other string, id ID) string {
	return fmt.Sprintf("%s exists and belongs to bundle %s (release %s), which is wanted, too; remove it from %s or from %s",
		what, other, id, bundle, other)
}

// ForeignText says that a bundle of another repository has the same object. what
// names the object, other is the bundle that has it, id its release.
func ForeignText(what, other string, id ID) string {
	return fmt.Sprintf("%s exists and does not belong to this release: it belongs to release %s of bundle %s; "+
		"remove it from one of the two bundles", what, id, other)
}

// Reclaimed reports whether a deployment applies an object of its release again
// that another release has taken over. there is true while that release exists,
// made if this agent made it, has while the object is in its newest manifest,
// marked if a Fleet agent marked the object.
func Reclaimed(there, made, has, marked bool) bool {
	if !there {
		return marked
	}
	return made && !has
}
