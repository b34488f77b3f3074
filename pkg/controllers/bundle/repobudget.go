package bundle

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A repoLoss is what the Bundles of one GitRepo would remove: Bundles that are marked
// for deletion, and releases that would be replaced.
type repoLoss struct {
	repo            *fleet.GitRepo
	bundles, marked []*fleet.Bundle
	approved        bool                       // the marked Bundles may be deleted already
	replaced        map[kube.Key]*replacements // by Bundle, of those that are to be judged or are held
	newest          time.Time                  // when the newest of these came
	unplanned       bool                       // some Bundle was not looked at since it was written
}

// repoLossOf gathers the repoLoss of a GitRepo.
func (bg *budgets) repoLossOf(repo *fleet.GitRepo, own, marked []*fleet.Bundle) *repoLoss {
	l := &repoLoss{
		repo: repo, bundles: own, marked: marked, replaced: map[kube.Key]*replacements{},
		approved: len(marked) == 0 || bg.deletionBudget.isPruneApproved(kube.KeyOf(repo), repo.Annotations[fleet.AnnotationPrune]),
	}
	for _, b := range own {
		key := kube.KeyOf(b)
		r := bg.deletionBudget.replacementsOf(key)
		if b.DeletionTimestamp != nil || slices.Contains(marked, b) {
			continue
		}
		l.unplanned = l.unplanned || !bg.table.Planned(key)
		if len(r.open) == 0 {
			continue
		}
		l.replaced[key] = r
		if r.since.After(l.newest) {
			l.newest = r.since
		}
	}
	return l
}

// judgeRepoLoss decides what the Bundles of a GitRepo may remove. rest is the part of
// the removal that the verdict v is about; all else is allowed. after is when to decide
// again, 0 if the verdict is final: it is not while a commit is being written, or while
// a Bundle that is not planned yet, or a deployment in progress, may take over objects of
// the Bundles.
func (bg *budgets) judgeRepoLoss(l *repoLoss) (rest withdrawal.Removal, v withdrawal.Verdict, after time.Duration) {
	age := bg.now().Sub(l.newest)
	if len(l.replaced) > 0 && (age < collectTime || age < claimGrace && !l.commitWritten()) {
		return rest, v, collectTime
	}
	since := l.newest
	if !l.approved {
		begun := bg.deletionBudget.pruneSince(kube.KeyOf(l.repo), l.repo.Annotations[fleet.AnnotationPrune], bg.now())
		if begun.After(since) {
			since = begun
		}
	}
	r, undecided := bg.removalOfRepo(l, since)
	_, rest = withdrawal.Part(r)
	v = withdrawal.DecideRemoval(rest)
	if (undecided || l.unplanned) && bg.now().Sub(since) < claimGrace && heldForObjectsOnly(rest, v) {
		after = collectTime
	}
	return rest, v, after
}

// removalOfRepo returns the removal of all Bundles of a GitRepo by the change that
// began at since. undecided reports that other deployments may still take over some
// objects.
func (bg *budgets) removalOfRepo(l *repoLoss, since time.Time) (r withdrawal.Removal, undecided bool) {
	key := kube.KeyOf(l.repo)
	r = withdrawal.Removal{
		Unit: "bundle", Approved: l.repo.Annotations[fleet.AnnotationApproveDeletion],
		Budget: bg.budgetOf(l.repo, key.Namespace, withdrawal.BundleBudget),
	}
	counted := map[string]bool{}
	for _, b := range l.bundles {
		going := slices.Contains(l.marked, b)
		if going || b.DeletionTimestamp == nil {
			r.Total++
		}
		var item withdrawal.Item
		var more bool
		switch {
		case going && b.Spec.KeepResources && !withdrawal.IsProtected(b): // nothing is removed
			continue
		case going && (l.approved || b.DeletionTimestamp != nil):
			r.Also++
			continue
		case going:
			item, more = bg.removedItem(l, b)
		case l.replaced[kube.KeyOf(b)] != nil:
			item, more = bg.replacedItem(l, b)
		default:
			continue
		}
		counted[b.Name], undecided = true, undecided || more
		r.Items = append(r.Items, item)
	}
	for _, name := range bg.deletionBudget.unapprovedSince(key, since) {
		if !counted[name] {
			r.Also++
		}
	}
	return r, undecided
}

// removedItem returns the item of a Bundle that would be deleted.
func (bg *budgets) removedItem(l *repoLoss, b *fleet.Bundle) (item withdrawal.Item, undecided bool) {
	item = withdrawal.Item{Name: b.Name, UID: b.UID, Protected: withdrawal.IsProtected(b)}
	deployments, _ := bg.table.Deployments(kube.KeyOf(b))
	for cluster, bd := range deployments {
		part, more := bg.removalItem(cluster, kube.KeyOf(l.repo), bd, l.removedFrom(cluster))
		item.DataObjects = append(item.DataObjects, part.DataObjects...)
		undecided = undecided || more
	}
	return item, undecided
}

// replacedItem returns the item of a Bundle whose releases would be replaced on some
// clusters.
func (bg *budgets) replacedItem(l *repoLoss, b *fleet.Bundle) (item withdrawal.Item, undecided bool) {
	item = withdrawal.Item{Name: b.Name, UID: b.UID}
	for _, one := range l.replaced[kube.KeyOf(b)].open {
		things, more := bg.lostObjects(one, kube.KeyOf(l.repo), l.removedFrom(one.cluster))
		item.DataObjects = append(item.DataObjects, things...)
		item.Replaced = append(item.Replaced, one.String())
		undecided = undecided || more
	}
	slices.Sort(item.Replaced)
	item.Replaced = slices.Compact(item.Replaced)
	return item, undecided
}

// removedFrom returns a function that reports whether the release of a Bundle on a
// cluster is removed or replaced.
func (l *repoLoss) removedFrom(cluster kube.Key) func(kube.Key) bool {
	return func(bundle kube.Key) bool {
		r := l.replaced[bundle]
		return r != nil && slices.ContainsFunc(r.open, func(r *replaced) bool { return r.cluster == cluster }) ||
			slices.ContainsFunc(l.marked, func(b *fleet.Bundle) bool { return kube.KeyOf(b) == bundle })
	}
}

// commitWritten reports whether gitjob has written all Bundles of the commit that
// caused the loss, and whether the manager has planned them: Bundles of the same commit
// may follow. A commit is written if the status of the GitRepo has it, or has another
// commit than when the Bundle was planned. The watch may deliver the GitRepo before its
// Bundles: the status of the GitRepo names them.
func (l *repoLoss) commitWritten() bool {
	if l.repo.Status.ObservedGeneration < l.repo.Generation || l.unplanned {
		return false
	}
	if shows, known := reading.Shows(l.repo, l.bundles); known && !shows {
		return false
	}
	for _, b := range l.bundles {
		r, commit := l.replaced[kube.KeyOf(b)], b.Labels[fleet.LabelCommit]
		if r == nil || commit == "" || commit == l.repo.Status.Commit || r.commit != l.repo.Status.Commit {
			continue
		}
		if slices.ContainsFunc(r.open, func(r *replaced) bool { return r.bd.Labels[fleet.LabelCommit] != commit }) {
			return false
		}
	}
	return true
}

// mayPrune reports whether the marked Bundles may be deleted. v is the verdict about
// rest.
func (l *repoLoss) mayPrune(rest withdrawal.Removal, v withdrawal.Verdict) bool {
	return l.approved || !v.Held || !slices.ContainsFunc(rest.Items, func(i withdrawal.Item) bool { return len(i.Replaced) == 0 })
}

// permitReplacements allows the replacements of releases that the verdict does not
// hold.
func (bg *budgets) permitReplacements(l *repoLoss, rest withdrawal.Removal, v withdrawal.Verdict) {
	repo := kube.KeyOf(l.repo)
	for key, r := range l.replaced {
		judged := slices.ContainsFunc(rest.Items, func(i withdrawal.Item) bool { return i.Name == key.Name })
		switch {
		case judged && v.Held:
			continue
		case judged:
			bg.logFor(key).WithField("reason", "approved as "+v.Hash).Info("releases are replaced")
		default:
			bg.deletionBudget.recordUnapproved(repo, key.Name, r.since, bg.now())
		}
		bg.permit(key, r.open)
	}
}
