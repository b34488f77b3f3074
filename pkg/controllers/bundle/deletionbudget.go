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
	oneChange = time.Minute
	collect   = time.Second
)

// A deletionBudget remembers what changes remove. After a restart all remaining
// removals are judged again, so that losing this memory only repeats questions.
type deletionBudget struct {
	mu       sync.Mutex
	changes  map[kube.Key]*change                      // by Bundle
	payments map[string][]payment                      // by workspace
	verdicts map[fleetstate.Subject]withdrawal.Verdict // the last one; not held if there is nothing to report
	granted  map[kube.Key]string                       // marks by GitRepo whose Bundles may go
	begun    map[kube.Key]request                      // marks by GitRepo that are looked at
	replaced map[kube.Key]*replacements                // by Bundle
	paid     map[kube.Key]map[string]time.Time         // by GitRepo: Bundles whose releases were replaced without an approval, and when that began
}

// A change is what targeting withdraws from the clusters of one Bundle.
type change struct {
	since time.Time
	fresh int // deployments that were not judged, or are held
	// free are those that may go; true: a person has approved it.
	free map[types.UID]bool
}

// A payment is so many deployments that may go.
type payment struct {
	since time.Time
	n     int
	// approved is when a user approved the change: what begins afterwards is another
	// change. Zero: no approval was needed.
	approved time.Time
}

type request struct {
	mark  string
	since time.Time
}

func newDeletionBudget() *deletionBudget {
	return &deletionBudget{
		changes: map[kube.Key]*change{}, payments: map[string][]payment{}, verdicts: map[fleetstate.Subject]withdrawal.Verdict{},
		granted: map[kube.Key]string{}, begun: map[kube.Key]request{},
		replaced: map[kube.Key]*replacements{}, paid: map[kube.Key]map[string]time.Time{},
	}
}

// update records the deployments that targeting withdraws from a Bundle now. It divides
// them into those that may be removed already, with or without an approval, and those
// to be judged. since is when that began.
func (p *deletionBudget) update(key kube.Key, open []*staleDeployment, now time.Time) (free, approved, fresh []*staleDeployment, since time.Time) {
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
		hurry, ok := c.free[l.bd.UID]
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
	if c.fresh == 0 {
		c.since = now
	}
	c.free, c.fresh = still, len(fresh)
	return free, approved, fresh, c.since
}

// also returns how many other deployments of the workspace the same change withdraws:
// those that wait, and those that were released.
func (p *deletionBudget) also(key kube.Key, since time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for other, c := range p.changes {
		if other != key && other.Namespace == key.Namespace && c.since.Sub(since).Abs() <= oneChange {
			n += c.fresh
		}
	}
	for _, pay := range p.payments[key.Namespace] {
		if pay.since.Sub(since).Abs() <= oneChange && (pay.approved.IsZero() || since.Before(pay.approved)) {
			n += pay.n
		}
	}
	return n
}

// grant lets deployments of a Bundle go.
func (p *deletionBudget) grant(key kube.Key, list []*staleDeployment, approved bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changes[key]
	if c == nil {
		return
	}
	for _, l := range list {
		c.free[l.bd.UID] = approved
	}
	c.fresh = 0
	ns := key.Namespace
	paid := payment{since: c.since, n: len(list)}
	if approved {
		paid.approved = now
	}
	all := append(p.payments[ns], paid)
	p.payments[ns] = nil
	for _, pay := range all {
		if now.Sub(pay.since) <= oneChange || p.awaited(ns, pay.since) {
			p.payments[ns] = append(p.payments[ns], pay)
		}
	}
}

// awaited reports whether something waits that is of the same change as a payment.
func (p *deletionBudget) awaited(namespace string, since time.Time) bool {
	for key, c := range p.changes {
		if key.Namespace == namespace && c.fresh > 0 && c.since.Sub(since).Abs() <= oneChange {
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
	delete(p.granted, key)
	delete(p.begun, key)
	delete(p.paid, key)
	delete(p.verdicts, fleetstate.Subject{Kind: fleetstate.KindGitRepo, Key: key})
}

// begin is since when the Bundles of a GitRepo with a mark are asked to go.
func (p *deletionBudget) begin(repo kube.Key, mark string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun[repo].mark != mark {
		p.begun[repo] = request{mark, now}
	}
	return p.begun[repo].since
}

// approve lets the Bundles of a GitRepo with a mark go; an empty mark, none.
func (p *deletionBudget) approve(repo kube.Key, mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if mark == "" {
		delete(p.granted, repo)
		return
	}
	p.granted[repo] = mark
}

func (p *deletionBudget) isApproved(repo kube.Key, mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted[repo] == mark
}

// verdict returns the last decision about an object, if there is one.
func (p *deletionBudget) verdict(s fleetstate.Subject) (withdrawal.Verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verdicts[s]
	return v, ok
}

// setVerdict stores a verdict, and reports whether it differs from the one before.
func (p *deletionBudget) setVerdict(s fleetstate.Subject, v withdrawal.Verdict) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.verdicts[s]
	p.verdicts[s] = v
	return !known || old.Held != v.Held || old.Hash != v.Hash || old.Summary != v.Summary
}
