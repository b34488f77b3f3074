package bundle

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// heldAgain is the delay after which a held change is judged again without an event:
// part of it may be gone by then.
const heldAgain = time.Minute

// claimGrace is how long a removal waits for other deployments of the same repository
// that are being deployed to the same clusters: they may take over objects that the
// removal would delete.
const claimGrace = time.Minute

// budgets decides by the deletion budgets of repositories and workspaces which removals
// have to wait for an approval, and writes on Bundles and GitRepos what waits.
type budgets struct {
	*base
	client         *kube.Client
	bundles        *kube.Store[*fleet.Bundle]
	repos          *kube.Store[*fleet.GitRepo]
	deletionBudget *deletionBudget
}

// withinBudget divides the deployments that targeting withdraws. free may be removed at
// the Bundle's pace; approved, by a user, may be removed at once; all others wait, and
// again is when to decide about them again. The releases that a Bundle without GitRepo
// replaces are judged together with these deployments.
func (bg *budgets) withinBudget(ctx context.Context, s *snapshot, open []*staleDeployment) (free, approved []*staleDeployment, again time.Duration, err error) {
	subject := fleetstate.Subject{Kind: fleetstate.KindBundle, Key: s.key}
	free, approved, fresh, since := bg.deletionBudget.updateWithdrawals(s.key, open, bg.now())
	var alone []*replaced
	age := bg.now().Sub(since)
	if !s.replacing.byRepo {
		r := bg.deletionBudget.replacementsOf(s.key)
		if alone = r.open; len(alone) > 0 && (len(fresh) == 0 || r.since.After(since)) {
			age = bg.now().Sub(r.since)
		}
	}
	switch {
	case len(fresh)+len(alone) == 0:
		return free, approved, 0, bg.clearHeld(ctx, subject, s.bundle)
	case !bg.table.Settled():
		return free, approved, collectTime, nil
	case age < collectTime:
		return free, approved, collectTime - age, nil
	}
	r, held, undecided := bg.removalOf(s, fresh, alone)
	r.Also = bg.deletionBudget.alsoWithdrawn(s.key, since)
	v := withdrawal.DecideRemoval(r)
	if undecided && age < claimGrace && heldForObjectsOnly(r, v) {
		return free, approved, collectTime, nil
	}
	why, err := bg.unorderedReason(ctx, s.bundle, fresh)
	if err != nil {
		return free, approved, collectTime, err
	}
	if why != "" {
		v = withdrawal.DecideUnordered(r, why)
	}
	if v.Held {
		bg.permit(s.key, slices.DeleteFunc(slices.Clone(alone), func(l *replaced) bool { return held[l.cluster] }))
		return free, approved, heldAgain, bg.reportHeld(ctx, subject, s.bundle, v)
	}
	bg.permit(s.key, alone)
	bg.deletionBudget.releaseDeployments(s.key, fresh, v.Approved, bg.now())
	if v.Approved {
		approved = append(approved, fresh...)
		bg.logFor(s.key).WithField("reason", "approved as "+v.Hash).Info("withdrawals go on")
	} else {
		free = append(free, fresh...)
	}
	return free, approved, 0, bg.clearHeld(ctx, subject, s.bundle)
}

// removalOf returns the removal that a Bundle asks for: the withdrawn deployments in
// fresh, and the deployments in alone whose release is replaced and that have objects
// which always need an approval. held are the clusters of the latter. undecided reports
// that other deployments may still take over some of these objects.
func (bg *budgets) removalOf(s *snapshot, fresh []*staleDeployment, alone []*replaced) (r withdrawal.Removal, held map[kube.Key]bool, undecided bool) {
	repo := repoOf(s.bundle)
	r = withdrawal.Removal{
		Unit: "deployment", Total: bg.table.DeploymentsOf(s.key.Namespace), Approved: s.bundle.Annotations[fleet.AnnotationApproveDeletion],
		Budget: bg.budgetOf(bg.table.Repo(repo), s.key.Namespace, withdrawal.DeploymentBudget),
	}
	own := func(other kube.Key) bool { return other == s.key }
	for _, l := range fresh {
		item, more := bg.removalItem(l.cluster, repo, l.bd, own)
		undecided = undecided || more
		r.Items = append(r.Items, item)
	}
	held = map[kube.Key]bool{}
	for _, l := range alone {
		things, more := bg.lostObjects(l, repo, own)
		if len(things) == 0 {
			continue
		}
		undecided, held[l.cluster] = undecided || more, true
		r.Items = append(r.Items, withdrawal.Item{
			Name: l.cluster.String(), UID: l.bd.UID, DataObjects: things, Replaced: []string{l.String()},
		})
	}
	return r, held, undecided
}

// removalItem returns one deployment as an item of a removal, with its objects that
// always need an approval. leaves reports whether a Bundle is removed from the cluster
// too: then it cannot take over objects. undecided reports that other deployments may
// still take over some of the objects.
func (bg *budgets) removalItem(cluster, repo kube.Key, bd *fleet.BundleDeployment, leaves func(kube.Key) bool) (removalItem withdrawal.Item, undecided bool) {
	removalItem = withdrawal.Item{Name: cluster.String(), UID: bd.UID}
	things := withdrawal.DataObjects(cluster.String(), bd)
	if len(things) == 0 {
		return removalItem, false
	}
	removalItem.DataObjects, undecided = bg.table.LostObjects(cluster, repo, things, leaves)
	return removalItem, undecided
}

// heldForObjectsOnly reports whether a removal is held only because of its objects that
// always need an approval, such as PersistentVolumeClaims, and not because of its size.
func heldForObjectsOnly(r withdrawal.Removal, v withdrawal.Verdict) bool {
	withoutObjects := r
	withoutObjects.Items = nil
	for _, item := range r.Items {
		item.DataObjects = nil
		withoutObjects.Items = append(withoutObjects.Items, item)
	}
	return v.Held && !withdrawal.DecideRemoval(withoutObjects).Held
}

// repoOf returns the key of the GitRepo of a Bundle; the zero key if it has none.
func repoOf(b *fleet.Bundle) kube.Key {
	name := b.Labels[fleet.LabelRepoName]
	if name == "" {
		return kube.Key{}
	}
	return kube.Key{Namespace: b.Namespace, Name: name}
}

// stripNamespace keeps the annotations of a workspace that concern deletions.
func stripNamespace(m *metav1.PartialObjectMetadata) {
	keepAnnotations(m, fleet.AnnotationDeletionBudget, fleet.AnnotationDeletionHeld, fleet.AnnotationApproveDeletion)
}

// onBudgetChange enqueues the Bundles and GitRepos of a workspace whose deletion budget
// has changed: what is held there is judged again.
func (bg *budgets) onBudgetChange(old, changed *metav1.PartialObjectMetadata) {
	if old == nil || changed == nil || old.Annotations[fleet.AnnotationDeletionBudget] == changed.Annotations[fleet.AnnotationDeletionBudget] {
		return
	}
	bg.enqueueBundlesIn(changed.Name)
	for _, repo := range bg.cache.repos.List(changed.Name) {
		bg.pruneQueue.Add(kube.KeyOf(repo))
		bg.status[fleetstate.KindGitRepo].enqueue(kube.KeyOf(repo), true)
	}
}

// approveCommand returns the command by which a user approves the held removal of an
// object.
func approveCommand(s fleetstate.Subject, hash string) string {
	kind := "bundle"
	if s.Kind == fleetstate.KindGitRepo {
		kind = "repo"
	}
	return fmt.Sprintf("fleet approve -n %s %s/%s %s", s.Key.Namespace, kind, s.Key.Name, hash)
}

// reportHeld reports on a Bundle or GitRepo what waits for an approval: the whole list
// in an annotation, and a summary in condition DeletionHeld, which the status
// controller writes.
func (bg *budgets) reportHeld(ctx context.Context, s fleetstate.Subject, obj kube.Object, v withdrawal.Verdict) error {
	before, _, _ := withdrawal.ReadText(obj.GetAnnotations()[fleet.AnnotationDeletionHeld])
	if err := bg.writeHeldAnnotation(ctx, obj, v.Text()); err != nil {
		return err
	}
	if !bg.deletionBudget.setVerdict(s, v) {
		return nil
	}
	bg.status[s.Kind].enqueue(s.Key, true)
	if before != v.Hash {
		message := v.Message(approveCommand(s, v.Hash))
		bg.events.Event(obj, kube.Warning, fleet.ReasonDeletionHeld, message)
		bg.log.WithField("workspace", s.Key.Namespace).WithField("reason", message).Info("deletion held")
	}
	return nil
}

// clearHeld removes what reportHeld has written on a Bundle or GitRepo, if anything.
func (bg *budgets) clearHeld(ctx context.Context, s fleetstate.Subject, obj kube.Object) error {
	_, listed := obj.GetAnnotations()[fleet.AnnotationDeletionHeld]
	_, said := bg.deletionBudget.verdict(s)
	if !listed && !said && condition.Find(conditionsOf(obj), fleet.ConditionDeletionHeld) == nil {
		return nil
	}
	if err := bg.writeHeldAnnotation(ctx, obj, ""); err != nil {
		return err
	}
	if bg.deletionBudget.setVerdict(s, withdrawal.Verdict{}) {
		bg.status[s.Kind].enqueue(s.Key, true)
	}
	return nil
}

// writeHeldAnnotation writes the annotation that lists what is held; an empty text
// removes the annotation.
func (bg *budgets) writeHeldAnnotation(ctx context.Context, obj kube.Object, text string) error {
	if obj.GetAnnotations()[fleet.AnnotationDeletionHeld] == text {
		return nil
	}
	var err error
	switch o := obj.(type) {
	case *fleet.Bundle:
		changed := o.DeepCopy()
		putHeldAnnotation(changed, text)
		if o, err = bg.bundles.Patch(ctx, o, changed); err == nil {
			bg.observe(o)
		}
	case *fleet.GitRepo:
		changed := o.DeepCopy()
		putHeldAnnotation(changed, text)
		if o, err = bg.repos.Patch(ctx, o, changed); err == nil {
			o.ManagedFields = nil
			bg.enqueue(bg.table.SetRepo(o))
		}
	}
	if kube.IsGone(err) {
		return nil
	}
	return err
}

// putHeldAnnotation sets the annotation of an object; an empty text removes it.
func putHeldAnnotation(obj kube.Object, text string) {
	all := obj.GetAnnotations()
	delete(all, fleet.AnnotationDeletionHeld)
	if text != "" {
		if all == nil {
			all = map[string]string{}
		}
		all[fleet.AnnotationDeletionHeld] = text
	}
	obj.SetAnnotations(all)
}

func conditionsOf(obj kube.Object) []fleet.Condition {
	switch o := obj.(type) {
	case *fleet.Bundle:
		return o.Status.Conditions
	case *fleet.GitRepo:
		return o.Status.Conditions
	}
	return nil
}
