package bundle

import (
	"maps"
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A version of another release (another namespace, or another release name) makes an
// agent uninstall the release before it. So the manager does not write such a version
// for a cluster until that is within the deletion budget, or approved: until then the
// deployment keeps its version. The replacements of all Bundles of a GitRepo are judged
// together, by the loop that judges which of them are removed. A staged version was
// judged before.

// A replaced is one deployment whose release would be replaced.
type replaced struct {
	withdrawal.Replacement
	cluster kube.Key
	bd      *fleet.BundleDeployment
}

// replacing holds the inputs of a decision about replaced releases.
type replacing struct {
	free  bool   // the budget is off
	owned bool   // a GitRepo has the Bundle: all replacements of its Bundles are judged together
	at    string // the commit that it was read at
	// may are the releases that deployments may get, by Cluster.
	may map[kube.Key]release.ID
}

// replacements are those of one Bundle.
type replacements struct {
	since time.Time   // when the newest of open came
	at    string      // the commit that the GitRepo was read at then
	open  []*replaced // that are to be judged, or are held
	may   map[kube.Key]release.ID
}

// keep is why a pair keeps the version that it has; empty where it need not. It
// compares releases of pairs only that are about to get another version.
func (s *snapshot) keep(p *pair) string {
	if s.replacing.free || p.old == nil || p.want.ID == "" || p.old.Spec.DeploymentID == p.id || p.old.Spec.StagedDeploymentID == p.id ||
		s.bundle.Name == naming.AgentBundle(p.key.Name) {
		return ""
	}
	if p.release == (release.ID{}) {
		if p.version == nil {
			v, err := s.work(p)
			if err != nil {
				return "" // writing it says so
			}
			p.version = &v
		}
		p.release = release.IDNamed(s.named(), p.version.Options)
	}
	r, ok := withdrawal.Replaces(p.old, s.named(), p.release)
	switch {
	case !ok:
		return ""
	case (p.offline || p.silent) && rollout.Unanswered(p.old):
		p.want.Kept = true
		return r.String() + " when its agent has reported what it has deployed so far"
	case !withdrawal.Loses(p.old), !s.replacing.owned && len(withdrawal.ReplacedThings(p.key.String(), p.old)) == 0:
		return ""
	}
	p.replaced = &replaced{r, p.key, p.old}
	if s.replacing.may[p.key] == r.To {
		return ""
	}
	p.want.Kept = true
	return r.String() + withdrawal.UntilApproved
}

// named returns the default name of the Bundle's releases.
func (s *snapshot) named() string {
	if s.releaseName == "" {
		s.releaseName = naming.ReleaseName(s.bundle.Name)
	}
	return s.releaseName
}

// replacingOf gathers these inputs before a Bundle is decided.
func (e *budgets) replacingOf(b *fleet.Bundle) replacing {
	repo := e.judgedBy(b)
	budget, _ := e.budget(repo, b.Namespace, withdrawal.BundleBudget) // an error is logged when something is judged
	out := replacing{free: budget.Off(), owned: repo != nil, may: e.deletionBudget.mayReplace(kube.KeyOf(b))}
	if repo != nil {
		out.at = repo.Status.Commit
	}
	return out
}

// judgedBy is the GitRepo that all that a Bundle replaces is judged with; nil
// where the Bundle is judged alone.
func (e *budgets) judgedBy(b *fleet.Bundle) *fleet.GitRepo {
	repo := e.table.Repo(ownerOf(b))
	if repo == nil || repo.DeletionTimestamp != nil || !e.cfg.Scope.Owns(repo) {
		return nil
	}
	return repo
}

// noteReplaced stores what was decided, and enqueues the judgment for the time after
// everything that the same change concerns was looked at.
func (e *budgets) noteReplaced(s *snapshot, d *decision) {
	if d.frozen {
		return
	}
	if e.deletionBudget.replaces(s.key, d.replaced, s.replacing.at, e.now()) && s.replacing.owned {
		e.pruneQueue.AddAfter(ownerOf(s.bundle), collect)
	}
}

// lostWith are the precious objects that go with a release that is replaced. See
// fleetstate.Lost.
func (e *budgets) lostWith(l *replaced, repo kube.Key, leaves func(kube.Key) bool) (things []withdrawal.Thing, undecided bool) {
	if things = withdrawal.ReplacedThings(l.cluster.String(), l.bd); len(things) == 0 {
		return nil, false
	}
	return e.table.Lost(l.cluster, repo, things, leaves)
}

// permit lets deployments of a Bundle replace their releases.
func (e *budgets) permit(key kube.Key, list []*replaced) {
	if len(list) == 0 {
		return
	}
	e.deletionBudget.permit(key, list)
	e.bundleQueue.AddFirst(key)
}

// replaces records which deployments of a Bundle replace their release, and reports
// whether there are others to be judged than before. A deployment that was permitted
// and is no longer desired is judged again when it is desired again.
func (p *deletionBudget) replaces(key kube.Key, all []*replaced, at string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.replaced[key]
	if len(all) == 0 {
		delete(p.replaced, key)
		return old != nil && len(old.open) > 0
	}
	next := &replacements{since: now, at: at, may: map[kube.Key]release.ID{}}
	for _, r := range all {
		if old != nil && old.may[r.cluster] == r.To {
			next.may[r.cluster] = r.To
		} else {
			next.open = append(next.open, r)
		}
	}
	p.replaced[key] = next
	if old == nil {
		return len(next.open) > 0
	}
	known := map[kube.Key]*replaced{}
	for _, r := range old.open {
		known[r.cluster] = r
	}
	anew := slices.ContainsFunc(next.open, func(r *replaced) bool {
		before := known[r.cluster]
		return before == nil || before.Replacement != r.Replacement || before.bd.UID != r.bd.UID
	})
	if !anew {
		next.since, next.at = old.since, old.at
	}
	return anew || len(old.open) != len(next.open)
}

// mayReplace are the releases that deployments of a Bundle may get, by Cluster.
func (p *deletionBudget) mayReplace(key kube.Key) map[kube.Key]release.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.replaced[key]; r != nil {
		return maps.Clone(r.may)
	}
	return nil
}

// open are the deployments of a Bundle whose replacement is to be judged, or is held.
// The result must not be changed.
func (p *deletionBudget) open(key kube.Key) *replacements {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.replaced[key]; r != nil {
		return r
	}
	return &replacements{}
}

// permit lets deployments replace their releases.
func (p *deletionBudget) permit(key kube.Key, list []*replaced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.replaced[key]
	if r == nil {
		return
	}
	may := maps.Clone(r.may)
	for _, one := range list {
		may[one.cluster] = one.To
	}
	open := slices.DeleteFunc(slices.Clone(r.open), func(one *replaced) bool { return may[one.cluster] == one.To })
	p.replaced[key] = &replacements{since: r.since, at: r.at, open: open, may: may}
}

// pay notes that the releases of a Bundle were replaced without an approval by a
// change that began at since. It is forgotten when it is part of no change that is
// still to be judged.
func (p *deletionBudget) pay(repo kube.Key, bundle string, since, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid[repo] == nil {
		p.paid[repo] = map[string]time.Time{}
	}
	p.paid[repo][bundle] = since
	maps.DeleteFunc(p.paid[repo], func(_ string, at time.Time) bool {
		for key, r := range p.replaced {
			if key.Namespace == repo.Namespace && len(r.open) > 0 && r.since.Sub(at).Abs() <= oneChange {
				return false
			}
		}
		return now.Sub(at) > oneChange
	})
}

// paidFor are the Bundles whose releases were replaced without an approval by the
// change that began at since.
func (p *deletionBudget) paidFor(repo kube.Key, since time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for bundle, at := range p.paid[repo] {
		if at.Sub(since).Abs() <= oneChange {
			out = append(out, bundle)
		}
	}
	return out
}
