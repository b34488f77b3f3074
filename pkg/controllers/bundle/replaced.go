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

// A replaced is one deployment whose release would be replaced by another release.
type replaced struct {
	withdrawal.Replacement
	cluster kube.Key
	bd      *fleet.BundleDeployment
}

// replaceInputs are the inputs of the decision about replaced releases.
type replaceInputs struct {
	// unlimited: no deletion budget applies.
	unlimited bool
	// byRepo: the Bundle belongs to a GitRepo, and all replacements of its Bundles are
	// judged together.
	byRepo bool
	// commit is the commit of the GitRepo when the Bundle was planned.
	commit string
	// permitted are the releases that deployments may get, by Cluster.
	permitted map[kube.Key]release.ID
}

// replacements are the replaced releases of one Bundle.
type replacements struct {
	// since is when the newest entry of open was added.
	since time.Time
	// commit is the commit of the GitRepo at that time.
	commit string
	// open are the deployments that are to be judged, or are held.
	open []*replaced
	// permitted are the releases that deployments may get, by Cluster.
	permitted map[kube.Key]release.ID
}

// keptReason returns why a pair must keep its present version because the new one
// replaces its release; empty if it need not. It compares releases only of pairs that
// are about to get another version.
func (s *snapshot) keptReason(p *pair) string {
	if s.replacing.unlimited || p.old == nil || p.want.ID == "" || p.old.Spec.DeploymentID == p.id || p.old.Spec.StagedDeploymentID == p.id ||
		s.bundle.Name == naming.AgentBundle(p.key.Name) {
		return ""
	}
	if p.release == (release.ID{}) {
		if p.version == nil {
			v, err := s.renderVersion(p)
			if err != nil {
				return "" // writing it says so
			}
			p.version = &v
		}
		p.release = release.IDNamed(s.defaultReleaseName(), p.version.Options)
	}
	r, ok := withdrawal.Replaces(p.old, s.defaultReleaseName(), p.release)
	switch {
	case !ok:
		return ""
	case (p.offline || p.silent) && rollout.Unanswered(p.old):
		p.want.Kept = true
		return r.String() + " when its agent has reported what it has deployed so far"
	case !withdrawal.LosesObjects(p.old), !s.replacing.byRepo && len(withdrawal.ReplacedObjects(p.key.String(), p.old)) == 0:
		return ""
	}
	p.replaced = &replaced{r, p.key, p.old}
	if s.replacing.permitted[p.key] == r.To {
		return ""
	}
	p.want.Kept = true
	return r.String() + withdrawal.UntilApproved
}

// defaultReleaseName returns the name of the Bundle's releases if the options set none.
func (s *snapshot) defaultReleaseName() string {
	if s.releaseName == "" {
		s.releaseName = naming.ReleaseName(s.bundle.Name)
	}
	return s.releaseName
}

// replaceInputsOf gathers the replaceInputs of a Bundle.
func (bg *budgets) replaceInputsOf(b *fleet.Bundle) replaceInputs {
	repo := bg.judgingRepo(b)
	budget, _ := bg.readBudget(repo, b.Namespace, withdrawal.BundleBudget) // an error is logged when something is judged
	out := replaceInputs{unlimited: budget.IsOff(), byRepo: repo != nil, permitted: bg.deletionBudget.permittedReleases(kube.KeyOf(b))}
	if repo != nil {
		out.commit = repo.Status.Commit
	}
	return out
}

// judgingRepo returns the GitRepo together with which the replacements of a Bundle are
// judged; nil if the Bundle is judged alone.
func (bg *budgets) judgingRepo(b *fleet.Bundle) *fleet.GitRepo {
	repo := bg.table.Repo(repoOf(b))
	if repo == nil || repo.DeletionTimestamp != nil || !bg.cfg.Scope.Owns(repo) {
		return nil
	}
	return repo
}

// storeReplaced stores the replaced releases of a decision. It enqueues their GitRepo
// after collectTime: by then the other Bundles of the same change are planned.
func (bg *budgets) storeReplaced(s *snapshot, d *decision) {
	if d.unchanged {
		return
	}
	if bg.deletionBudget.setReplaced(s.key, d.replaced, s.replacing.commit, bg.now()) && s.replacing.byRepo {
		bg.pruneQueue.AddAfter(repoOf(s.bundle), collectTime)
	}
}

// lostObjects returns the objects that a replaced release would delete and that always
// need an approval; see fleetstate.State.Lost for leaves and undecided.
func (bg *budgets) lostObjects(l *replaced, repo kube.Key, leaves func(kube.Key) bool) (things []withdrawal.DataObject, undecided bool) {
	if things = withdrawal.ReplacedObjects(l.cluster.String(), l.bd); len(things) == 0 {
		return nil, false
	}
	return bg.table.LostObjects(l.cluster, repo, things, leaves)
}

// permit allows deployments of a Bundle to replace their releases, and enqueues the
// Bundle.
func (bg *budgets) permit(key kube.Key, list []*replaced) {
	if len(list) == 0 {
		return
	}
	bg.deletionBudget.permit(key, list)
	bg.bundleQueue.AddFirst(key)
}

// setReplaced stores which deployments of a Bundle would replace their release, and
// reports whether there is something new to judge. A permission ends when the
// deployment does not want that release any more.
func (d *deletionBudget) setReplaced(key kube.Key, all []*replaced, commit string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.replaced[key]
	if len(all) == 0 {
		delete(d.replaced, key)
		return old != nil && len(old.open) > 0
	}
	next := &replacements{since: now, commit: commit, permitted: map[kube.Key]release.ID{}}
	for _, r := range all {
		if old != nil && old.permitted[r.cluster] == r.To {
			next.permitted[r.cluster] = r.To
		} else {
			next.open = append(next.open, r)
		}
	}
	d.replaced[key] = next
	if old == nil {
		return len(next.open) > 0
	}
	known := map[kube.Key]*replaced{}
	for _, r := range old.open {
		known[r.cluster] = r
	}
	added := slices.ContainsFunc(next.open, func(r *replaced) bool {
		before := known[r.cluster]
		return before == nil || before.Replacement != r.Replacement || before.bd.UID != r.bd.UID
	})
	if !added {
		next.since, next.commit = old.since, old.commit
	}
	return added || len(old.open) != len(next.open)
}

// permittedReleases returns the releases that deployments of a Bundle may get, by
// Cluster.
func (d *deletionBudget) permittedReleases(key kube.Key) map[kube.Key]release.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.replaced[key]; r != nil {
		return maps.Clone(r.permitted)
	}
	return nil
}

// replacementsOf returns the replacements of a Bundle. The caller must not change them.
func (d *deletionBudget) replacementsOf(key kube.Key) *replacements {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.replaced[key]; r != nil {
		return r
	}
	return &replacements{}
}

// permit records that deployments may replace their releases.
func (d *deletionBudget) permit(key kube.Key, list []*replaced) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.replaced[key]
	if r == nil {
		return
	}
	may := maps.Clone(r.permitted)
	for _, one := range list {
		may[one.cluster] = one.To
	}
	open := slices.DeleteFunc(slices.Clone(r.open), func(one *replaced) bool { return may[one.cluster] == one.To })
	d.replaced[key] = &replacements{since: r.since, commit: r.commit, open: open, permitted: may}
}

// recordUnapproved records that releases of a Bundle were replaced without an approval
// by the change that began at since. It drops records of changes that are complete.
func (d *deletionBudget) recordUnapproved(repo kube.Key, bundle string, since, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unapprovedReplaced[repo] == nil {
		d.unapprovedReplaced[repo] = map[string]time.Time{}
	}
	d.unapprovedReplaced[repo][bundle] = since
	maps.DeleteFunc(d.unapprovedReplaced[repo], func(_ string, at time.Time) bool {
		for key, r := range d.replaced {
			if key.Namespace == repo.Namespace && len(r.open) > 0 && r.since.Sub(at).Abs() <= oneChange {
				return false
			}
		}
		return now.Sub(at) > oneChange
	})
}

// unapprovedSince returns the Bundles of a GitRepo whose releases were replaced without
// an approval by the change that began at since.
func (d *deletionBudget) unapprovedSince(repo kube.Key, since time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for bundle, at := range d.unapprovedReplaced[repo] {
		if at.Sub(since).Abs() <= oneChange {
			out = append(out, bundle)
		}
	}
	return out
}
