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
func (p *deletionBudget) updateWithdrawals(key kube.Key, open []*staleDeployment, now time.Time) (free, approved, fresh []*staleDeployment, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changes[key]
	if len(open) == 0 {
		delete(p.changes, key)
		return nil, nil, nil, now
	}
	if c == nil {
		c = &change{}
		p.changes[key] = c
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
func (p *deletionBudget) alsoWithdrawn(key kube.Key, since time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for other, c := range p.changes {
		if other != key && other.Namespace == key.Namespace && c.since.Sub(since).Abs() <= oneChange {
			n += c.undecided
		}
	}
	for _, pay := range p.payments[key.Namespace] {
		if pay.since.Sub(since).Abs() <= oneChange && (pay.approved.IsZero() || since.Before(pay.approved)) {
			n += pay.n
		}
	}
	return n
}

// releaseDeployments records that deployments of a Bundle may be withdrawn; approved:
// because a user has approved it.
func (p *deletionBudget) releaseDeployments(key kube.Key, list []*staleDeployment, approved bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changes[key]
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
	all := append(p.payments[ns], paid)
	p.payments[ns] = nil
	for _, pay := range all {
		if now.Sub(pay.since) <= oneChange || p.partOfOpenChange(ns, pay.since) {
			p.payments[ns] = append(p.payments[ns], pay)
		}
	}
}

// partOfOpenChange reports whether deployments of the namespace wait that are part of
// the change which began at since.
func (p *deletionBudget) partOfOpenChange(namespace string, since time.Time) bool {
	for key, c := range p.changes {
		if key.Namespace == namespace && c.undecided > 0 && c.since.Sub(since).Abs() <= oneChange {
			return true
		}
	}
	return false
}

// forget drops what is remembered of a Bundle that is gone.
func (p *deletionBudget) forget(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.changes, key)
	delete(p.replaced, key)
	delete(p.verdicts, fleetstate.Subject{Kind: fleetstate.KindBundle, Key: key})
}

// forgetRepo drops what is remembered of a GitRepo that is gone.
func (p *deletionBudget) forgetRepo(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.prunesApproved, key)
	delete(p.prunesOpen, key)
	delete(p.unapprovedReplaced, key)
	delete(p.verdicts, fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key})
}

// pruneSince returns when the manager first saw the prune request of a GitRepo with a
// mark. The mark is the hash in the annotation of the request.
func (p *deletionBudget) pruneSince(repo kube.Key, mark string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prunesOpen[repo].mark != mark {
		p.prunesOpen[repo] = request{mark, now}
	}
	return p.prunesOpen[repo].since
}

// setPruneApproved records that the Bundles of a GitRepo with a mark may be deleted. An
// empty mark removes the record.
func (p *deletionBudget) setPruneApproved(repo kube.Key, mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if mark == "" {
		delete(p.prunesApproved, repo)
		return
	}
	p.prunesApproved[repo] = mark
}

// isPruneApproved reports whether the Bundles of a GitRepo with a mark may be deleted.
func (p *deletionBudget) isPruneApproved(repo kube.Key, mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prunesApproved[repo] == mark
}

// verdict returns the last verdict about a Bundle or GitRepo, if there is one.
func (p *deletionBudget) verdict(s fleetstate.Subject) (withdrawal.Verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verdicts[s]
	return v, ok
}

// setVerdict stores a verdict, and reports whether it differs from the previous one.
func (p *deletionBudget) setVerdict(s fleetstate.Subject, v withdrawal.Verdict) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.verdicts[s]
	p.verdicts[s] = v
	return !known || old.Held != v.Held || old.Hash != v.Hash || old.Summary != v.Summary
}
