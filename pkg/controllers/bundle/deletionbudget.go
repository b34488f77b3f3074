package bundle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Withdrawals by changes of targets in one workspace are judged as one change if they
// begin within a minute. They are judged a second after the beginning: by then the
// other Bundles that the same change concerns have been looked at.
const (
	oneChange   = time.Minute
	collectTime = time.Second
)

// A deletionBudget remembers which removals belong to one change, and which of them
// were allowed. It is empty after a restart: then the manager judges all remaining
// removals again, which can ask a user twice, but removes nothing without an approval.
type deletionBudget struct {
	mu       sync.Mutex
	changes  map[kube.Key]*change                      // by Bundle
	payments map[string][]payment                      // by workspace
	verdicts map[fleetstate.Subject]withdrawal.Verdict // the last one; not held if there is nothing to report
	// prunesApproved holds, by GitRepo, the prune request (a hash) whose Bundles may be
	// deleted.
	prunesApproved map[kube.Key]string
	// prunesOpen holds, by GitRepo, the prune request that is being judged.
	prunesOpen map[kube.Key]request
	replaced   map[kube.Key]*replacements // by Bundle
	// unapprovedReplaced holds, by GitRepo, the Bundles whose releases were replaced
	// without an approval, and when that change began.
	unapprovedReplaced map[kube.Key]map[string]time.Time
}

// A change is the deployments of one Bundle that targeting withdraws.
type change struct {
	since time.Time
	// undecided is the number of deployments that were not judged yet, or are held.
	undecided int
	// released are the UIDs of deployments that may be withdrawn; true: a user has approved
	// it.
	released map[types.UID]bool
}

// A payment is a number of deployments that were released together. Later removals of
// the same change count them.
type payment struct {
	since time.Time
	n     int
	// approved is when a user approved the change: what begins afterwards is another
	// change. Zero: no approval was needed.
	approved time.Time
}

// A request is a prune request of a GitRepo, and when the manager saw it first.
type request struct {
	mark  string
	since time.Time
}

func newDeletionBudget() *deletionBudget {
	return &deletionBudget{
		changes: map[kube.Key]*change{}, payments: map[string][]payment{}, verdicts: map[fleetstate.Subject]withdrawal.Verdict{},
		prunesApproved: map[kube.Key]string{}, prunesOpen: map[kube.Key]request{},
		replaced: map[kube.Key]*replacements{}, unapprovedReplaced: map[kube.Key]map[string]time.Time{},
	}
}

// updateWithdrawals records the deployments that targeting withdraws from a Bundle.
// free and approved were released before, without and with an approval; fresh must be
// judged. since is when the first of fresh appeared.
func (d *deletionBudget) updateWithdrawals(key kube.Key, open []*staleDeployment, now time.Time) (free, approved, fresh []*staleDeployment, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.changes[key]
	if len(open) == 0 {
		delete(d.changes, key)
		return nil, nil, nil, now
	}
	if c == nil {
		c = &change{}
		d.changes[key] = c
	}
	still := map[types.UID]bool{}
	for _, l := range open {
		hurry, ok := c.released[l.bd.UID]
		switch {
		case !ok:
			fresh = append(fresh, l)
			continue
		case hurry:
			approved = append(approved, l)
		default:
			free = append(free, l)
		}
		still[l.bd.UID] = hurry
	}
	if c.undecided == 0 {
		c.since = now
	}
	c.released, c.undecided = still, len(fresh)
	return free, approved, fresh, c.since
}

// alsoWithdrawn returns how many deployments of other Bundles of the workspace the same
// change withdraws: those that wait, and those that were released.
func (d *deletionBudget) alsoWithdrawn(key kube.Key, since time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for other, c := range d.changes {
		if other != key && other.Namespace == key.Namespace && c.since.Sub(since).Abs() <= oneChange {
			n += c.undecided
		}
	}
	for _, pay := range d.payments[key.Namespace] {
		if pay.since.Sub(since).Abs() <= oneChange && (pay.approved.IsZero() || since.Before(pay.approved)) {
			n += pay.n
		}
	}
	return n
}

// releaseDeployments records that deployments of a Bundle may be withdrawn; approved:
// because a user has approved it.
func (d *deletionBudget) releaseDeployments(key kube.Key, list []*staleDeployment, approved bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.changes[key]
	if c == nil {
		return
	}
	for _, l := range list {
		c.released[l.bd.UID] = approved
	}
	c.undecided = 0
	ns := key.Namespace
	paid := payment{since: c.since, n: len(list)}
	if approved {
		paid.approved = now
	}
	all := append(d.payments[ns], paid)
	d.payments[ns] = nil
	for _, pay := range all {
		if now.Sub(pay.since) <= oneChange || d.partOfOpenChange(ns, pay.since) {
			d.payments[ns] = append(d.payments[ns], pay)
		}
	}
}

// partOfOpenChange reports whether deployments of the namespace wait that are part of
// the change which began at since.
func (d *deletionBudget) partOfOpenChange(namespace string, since time.Time) bool {
	for key, c := range d.changes {
		if key.Namespace == namespace && c.undecided > 0 && c.since.Sub(since).Abs() <= oneChange {
			return true
		}
	}
	return false
}

// forget drops what is remembered of a Bundle that is gone.
func (d *deletionBudget) forget(key kube.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.changes, key)
	delete(d.replaced, key)
	delete(d.verdicts, fleetstate.Subject{Kind: fleetstate.KindBundle, Key: key})
}

// forgetRepo drops what is remembered of a GitRepo that is gone.
func (d *deletionBudget) forgetRepo(key kube.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.prunesApproved, key)
	delete(d.prunesOpen, key)
	delete(d.unapprovedReplaced, key)
	delete(d.verdicts, fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key})
}

// pruneSince returns when the manager first saw the prune request of a GitRepo with a
// mark. The mark is the hash in the annotation of the request.
func (d *deletionBudget) pruneSince(repo kube.Key, mark string, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.prunesOpen[repo].mark != mark {
		d.prunesOpen[repo] = request{mark, now}
	}
	return d.prunesOpen[repo].since
}

// setPruneApproved records that the Bundles of a GitRepo with a mark may be deleted. An
// empty mark removes the record.
func (d *deletionBudget) setPruneApproved(repo kube.Key, mark string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if mark == "" {
		delete(d.prunesApproved, repo)
		return
	}
	d.prunesApproved[repo] = mark
}

// isPruneApproved reports whether the Bundles of a GitRepo with a mark may be deleted.
func (d *deletionBudget) isPruneApproved(repo kube.Key, mark string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.prunesApproved[repo] == mark
}

// verdict returns the last verdict about a Bundle or GitRepo, if there is one.
func (d *deletionBudget) verdict(s fleetstate.Subject) (withdrawal.Verdict, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.verdicts[s]
	return v, ok
}

// setVerdict stores a verdict, and reports whether it differs from the previous one.
func (d *deletionBudget) setVerdict(s fleetstate.Subject, v withdrawal.Verdict) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, known := d.verdicts[s]
	d.verdicts[s] = v
	return !known || old.Held != v.Held || old.Hash != v.Hash || old.Summary != v.Summary
}
