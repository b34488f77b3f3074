package release

import (
	"fmt"
	"strings"
	"time"
)

// Helm's own text about a revision that went back to an earlier one, and what Fleet adds to
// it to distinguish its own rollbacks from those of users.
const (
	rollback = "Rollback "
	byFleet  = " (by Fleet)"
)

// RollbackText returns the description of a rollback that Fleet makes. text is Helm's.
func RollbackText(text string) string { return strings.TrimSuffix(text, byFleet) + byFleet }

// InterruptedText returns the description of a revision in whose making, or removal, a
// process was killed.
func InterruptedText(s State) string { return fmt.Sprintf("interrupted (%s)", s) }

// A Revision is one record of Helm's storage.
type Revision struct {
	Number      int
	State       State // Unreadable if it cannot be decoded
	Since       time.Time
	Description string
	Memory      Record // zero if Fleet did not make it
}

// fleets reports whether Fleet made a revision, as far as that is known.
func (r Revision) fleets() bool { return r.Memory.Owner != Owner{} }

// succeeded reports whether a revision is or was deployed.
func (r Revision) succeeded() bool { return r.State == Deployed || r.State == Superseded }

// wentBack reports whether a rollback that Fleet did not make produced a revision from one
// of Fleet's: it has the same annotations then.
func (r Revision) wentBack() bool {
	return strings.HasPrefix(r.Description, rollback) && !strings.HasSuffix(r.Description, byFleet)
}

// Summarize reports what the revisions of a release, oldest first, amount to.
// Manifest, Values and Large are left empty.
//
// What was made by hand on top of Fleet's revisions does not count as good: the
// objects are compared with what the manager wants, and corrected to that.
func Summarize(id ID, list []Revision) Observed {
	out := Observed{ID: id, State: Absent}
	if len(list) == 0 {
		return out
	}
	newest := list[len(list)-1]
	out.State, out.Revision, out.Since, out.Description = newest.State, newest.Number, newest.Since, newest.Description
	out.Fresh = true
	known := false // Fleet made one of them
	for _, r := range list {
		if r.succeeded() || r.State == Uninstalling || r.State == Uninstalled || r.Description == InterruptedText(Uninstalling) {
			out.Fresh = false
		}
		if r.fleets() {
			out.Memory, known = r.Memory, true
		}
	}
	good := deployedRevision(list, known)
	out.Good, out.GoodState, out.GoodID = good.Number, good.State, good.Memory.DeploymentID
	out.Hand = known && newest.State != Unreadable && (!newest.fleets() || newest.wentBack() && newest.Memory.DeploymentID != good.Memory.DeploymentID)
	return out
}

// deployedRevision is the newest revision that was deployed and not made by hand; the zero
// Revision if there is none. One that is marked as deployed comes before all that
// are not.
func deployedRevision(list []Revision, known bool) Revision {
	var last, deployed Revision
	for _, r := range list {
		byHand := known && !r.fleets() || last.Number > 0 && r.wentBack() && r.Memory.DeploymentID != last.Memory.DeploymentID
		if !r.succeeded() || byHand {
			continue
		}
		if last = r; r.State == Deployed {
			deployed = r
		}
	}
	if deployed.Number > 0 {
		return deployed
	}
	return last
}
