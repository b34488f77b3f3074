package bundle

import (
	"slices"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A loss is what the Bundles of a GitRepo would lose.
type loss struct {
	repo        *fleet.GitRepo
	own, marked []*fleet.Bundle
	granted     bool                       // the marked ones may go already
	replaced    map[kube.Key]*replacements // by Bundle, of those that are to be judged or are held
	newest      time.Time                  // when the newest of these came
	unplanned   bool                       // some Bundle was not looked at since it was written
}

// lossOf gathers what the Bundles of a GitRepo would lose.
func (e *budgets) lossOf(repo *fleet.GitRepo, own, marked []*fleet.Bundle) *loss {
	l := &loss{
		repo: repo, own: own, marked: marked, replaced: map[kube.Key]*replacements{},
		granted: len(marked) == 0 || e.deletionBudget.isApproved(kube.KeyOf(repo), repo.Annotations[fleet.AnnotationPrune]),
	}
	for _, b := range own {
		key := kube.KeyOf(b)
		r := e.deletionBudget.open(key)
		if b.DeletionTimestamp != nil || slices.Contains(marked, b) {
			continue
		}
		l.unplanned = l.unplanned || !e.table.Planned(key)
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

// judgeLoss decides what the Bundles of a GitRepo may lose: rest by the verdict, and
// all else at once. after is when to look again if that is unknown yet: while a commit
// is being written, or while a deployment is on its way that may claim objects of the
// Bundles.
func (e *budgets) judgeLoss(l *loss) (rest withdrawal.Removal, v withdrawal.Verdict, after time.Duration) {
	age := e.now().Sub(l.newest)
	if len(l.replaced) > 0 && (age < collect || age < claimGrace && !l.written()) {
		return rest, v, collect
	}
	since := l.newest
	if !l.granted {
		begun := e.deletionBudget.begin(kube.KeyOf(l.repo), l.repo.Annotations[fleet.AnnotationPrune], e.now())
		if begun.After(since) {
			since = begun
		}
	}
	r, undecided := e.removalOfRepo(l, since)
	_, rest = withdrawal.Part(r)
	v = withdrawal.Judge(rest)
	if undecided && e.now().Sub(since) < claimGrace && rests(rest, v) {
		after = collect
	}
	return rest, v, after
}

// removalOfRepo is all that the Bundles of a GitRepo would lose by a change that
// began at since. It is undecided where the list of precious things may get shorter
// in a moment.
func (e *budgets) removalOfRepo(l *loss, since time.Time) (r withdrawal.Removal, undecided bool) {
	key := kube.KeyOf(l.repo)
	r = withdrawal.Removal{
		Unit: "bundle", Approved: l.repo.Annotations[fleet.AnnotationApproveDeletion],
		Budget: e.budgetOf(l.repo, key.Namespace, withdrawal.BundleBudget),
	}
	counted := map[string]bool{}
	for _, b := range l.own {
		going := slices.Contains(l.marked, b)
		if going || b.DeletionTimestamp == nil {
			r.Total++
		}
		var item withdrawal.Item
		var more bool
		switch {
		case going && b.Spec.KeepResources && !withdrawal.Protects(b): // nothing is removed
			continue
		case going && (l.granted || b.DeletionTimestamp != nil):
			r.Also++
			continue
		case going:
			item, more = e.removedItem(l, b)
		case l.replaced[kube.KeyOf(b)] != nil:
			item, more = e.replacedItem(l, b)
		default:
			continue
		}
		counted[b.Name], undecided = true, undecided || more
		r.Items = append(r.Items, item)
	}
	for _, name := range e.deletionBudget.paidFor(key, since) {
		if !counted[name] {
			r.Also++
		}
	}
	return r, undecided
}

// removedItem is a Bundle that would be removed.
func (e *budgets) removedItem(l *loss, b *fleet.Bundle) (item withdrawal.Item, undecided bool) {
	item = withdrawal.Item{Name: b.Name, UID: b.UID, Protected: withdrawal.Protects(b)}
	deployments, _ := e.table.Deployments(kube.KeyOf(b))
	for cluster, bd := range deployments {
		part, more := e.item(cluster, kube.KeyOf(l.repo), bd, l.leaves(cluster))
		item.Things = append(item.Things, part.Things...)
		undecided = undecided || more
	}
	return item, undecided
}

// replacedItem is a Bundle whose releases would be replaced on some clusters.
func (e *budgets) replacedItem(l *loss, b *fleet.Bundle) (item withdrawal.Item, undecided bool) {
	item = withdrawal.Item{Name: b.Name, UID: b.UID}
	for _, one := range l.replaced[kube.KeyOf(b)].open {
		things, more := e.lostWith(one, kube.KeyOf(l.repo), l.leaves(one.cluster))
		item.Things = append(item.Things, things...)
		item.Replaced = append(item.Replaced, one.String())
		undecided = undecided || more
	}
	slices.Sort(item.Replaced)
	item.Replaced = slices.Compact(item.Replaced)
	return item, undecided
}

// leaves returns a function that reports whether the release of a Bundle on a cluster
// is removed.
func (l *loss) leaves(cluster kube.Key) func(kube.Key) bool {
	return func(bundle kube.Key) bool {
		r := l.replaced[bundle]
		return r != nil && slices.ContainsFunc(r.open, func(r *replaced) bool { return r.cluster == cluster }) ||
			slices.ContainsFunc(l.marked, func(b *fleet.Bundle) bool { return kube.KeyOf(b) == bundle })
	}
}

// written reports whether the commit, or the specification of the GitRepo, that has
// changed these Bundles was written as a whole, and all of it was looked at: others of
// the same commit may be still to come. A commit was written, when the GitRepo says
// that it is at that commit, or at another one than when the Bundle was planned. The
// watch may report the GitRepo before its Bundles: the GitRepo names them.
func (l *loss) written() bool {
	if l.repo.Status.ObservedGeneration < l.repo.Generation || l.unplanned {
		return false
	}
	if shows, known := reading.Shows(l.repo, l.own); known && !shows {
		return false
	}
	for _, b := range l.own {
		r, commit := l.replaced[kube.KeyOf(b)], b.Labels[fleet.LabelCommit]
		if r == nil || commit == "" || commit == l.repo.Status.Commit || r.at != l.repo.Status.Commit {
			continue
		}
		if slices.ContainsFunc(r.open, func(r *replaced) bool { return r.bd.Labels[fleet.LabelCommit] != commit }) {
			return false
		}
	}
	return true
}

// mayPrune reports whether the marked Bundles may be removed: rest is what the
// verdict is about.
func (l *loss) mayPrune(rest withdrawal.Removal, v withdrawal.Verdict) bool {
	return l.granted || !v.Held || !slices.ContainsFunc(rest.Items, func(i withdrawal.Item) bool { return len(i.Replaced) == 0 })
}

// permitAll lets releases be replaced that may be.
func (e *budgets) permitAll(l *loss, rest withdrawal.Removal, v withdrawal.Verdict) {
	repo := kube.KeyOf(l.repo)
	for key, r := range l.replaced {
		judged := slices.ContainsFunc(rest.Items, func(i withdrawal.Item) bool { return i.Name == key.Name })
		switch {
		case judged && v.Held:
			continue
		case judged:
			e.logFor(key).WithField("reason", "approved as "+v.Hash).Info("releases are replaced")
		default:
			e.deletionBudget.pay(repo, key.Name, r.since, e.now())
		}
		e.permit(key, r.open)
	}
}
