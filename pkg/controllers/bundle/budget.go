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

// claimGrace is for how long a removal waits for deployments of the same
// repository that are on their way to the same clusters: they may claim what
// would go.
const claimGrace = time.Minute

// budgets judges removals by the deletion budgets of repositories and workspaces, and says on
// objects what waits to be approved.
type budgets struct {
	*base
	client         *kube.Client
	bundles        *kube.Store[*fleet.Bundle]
	repos          *kube.Store[*fleet.GitRepo]
	deletionBudget *deletionBudget
}

// withinBudget divides the deployments that targeting withdraws into those that may be
// removed at the Bundle's pace, those that a person has approved, and those that wait;
// for these it returns when to look again. The releases that a Bundle without GitRepo
// replaces are judged with them.
func (e *budgets) withinBudget(ctx context.Context, s *snapshot, open []*staleDeployment) (free, approved []*staleDeployment, again time.Duration, err error) {
	subject := fleetstate.Subject{Kind: fleetstate.KindBundle, Key: s.key}
	free, approved, fresh, since := e.deletionBudget.update(s.key, open, e.now())
	var alone []*replaced
	age := e.now().Sub(since)
	if !s.replacing.owned {
		r := e.deletionBudget.open(s.key)
		if alone = r.open; len(alone) > 0 && (len(fresh) == 0 || r.since.After(since)) {
			age = e.now().Sub(r.since)
		}
	}
	switch {
	case len(fresh)+len(alone) == 0:
		return free, approved, 0, e.unhold(ctx, subject, s.bundle)
	case !e.table.Settled():
		return free, approved, collect, nil
	case age < collect:
		return free, approved, collect - age, nil
	}
	r, held, undecided := e.removalOf(s, fresh, alone)
	r.Also = e.deletionBudget.also(s.key, since)
	v := withdrawal.Judge(r)
	if undecided && age < claimGrace && rests(r, v) {
		return free, approved, collect, nil
	}
	why, err := e.misled(ctx, s.bundle, fresh)
	if err != nil {
		return free, approved, collect, err
	}
	if why != "" {
		v = withdrawal.JudgeUnordered(r, why)
	}
	if v.Held {
		e.permit(s.key, slices.DeleteFunc(slices.Clone(alone), func(l *replaced) bool { return held[l.cluster] }))
		return free, approved, heldAgain, e.hold(ctx, subject, s.bundle, v)
	}
	e.permit(s.key, alone)
	e.deletionBudget.grant(s.key, fresh, v.Approved, e.now())
	if v.Approved {
		approved = append(approved, fresh...)
		e.logFor(s.key).WithField("reason", "approved as "+v.Hash).Info("withdrawals go on")
	} else {
		free = append(free, fresh...)
	}
	return free, approved, 0, e.unhold(ctx, subject, s.bundle)
}

// removalOf is what a Bundle would lose of deployments that leave, and of those
// whose release is replaced and that have something precious: held are their
// clusters.
func (e *budgets) removalOf(s *snapshot, fresh []*staleDeployment, alone []*replaced) (r withdrawal.Removal, held map[kube.Key]bool, undecided bool) {
	repo := ownerOf(s.bundle)
	r = withdrawal.Removal{
		Unit: "deployment", Total: e.table.DeploymentsOf(s.key.Namespace), Approved: s.bundle.Annotations[fleet.AnnotationApproveDeletion],
		Budget: e.budgetOf(e.table.Repo(repo), s.key.Namespace, withdrawal.DeploymentBudget),
	}
	own := func(other kube.Key) bool { return other == s.key }
	for _, l := range fresh {
		item, more := e.item(l.cluster, repo, l.bd, own)
		undecided = undecided || more
		r.Items = append(r.Items, item)
	}
	held = map[kube.Key]bool{}
	for _, l := range alone {
		things, more := e.lostWith(l, repo, own)
		if len(things) == 0 {
			continue
		}
		undecided, held[l.cluster] = undecided || more, true
		r.Items = append(r.Items, withdrawal.Item{
			Name: l.cluster.String(), UID: l.bd.UID, Things: things, Replaced: []string{l.String()},
		})
	}
	return r, held, undecided
}

// item is one deployment as a part of a removal. leaves reports which Bundles are
// removed from the cluster; undecided, that the list of precious things may get
// shorter in a moment.
func (e *budgets) item(cluster, repo kube.Key, bd *fleet.BundleDeployment, leaves func(kube.Key) bool) (item withdrawal.Item, undecided bool) {
	item = withdrawal.Item{Name: cluster.String(), UID: bd.UID}
	things := withdrawal.Things(cluster.String(), bd)
	if len(things) == 0 {
		return item, false
	}
	item.Things, undecided = e.table.Lost(cluster, repo, things, leaves)
	return item, undecided
}

// rests reports whether a removal is held only because of objects that are removed with
// it.
func rests(r withdrawal.Removal, v withdrawal.Verdict) bool {
	bare := r
	bare.Items = nil
	for _, item := range r.Items {
		item.Things = nil
		bare.Items = append(bare.Items, item)
	}
	return v.Held && !withdrawal.Judge(bare).Held
}

// ownerOf is the GitRepo of a Bundle; its name is empty where it has none.
func ownerOf(b *fleet.Bundle) kube.Key {
	name := b.Labels[fleet.LabelRepoName]
	if name == "" {
		return kube.Key{}
	}
	return kube.Key{Namespace: b.Namespace, Name: name}
}

// stripNamespace keeps the annotations of a workspace about deletions.
func stripNamespace(m *metav1.PartialObjectMetadata) {
	only(m, fleet.AnnotationDeletionBudget, fleet.AnnotationDeletionHeld, fleet.AnnotationApproveDeletion)
}

// onBudget judges again what is held in a workspace whose budget is another now.
func (e *budgets) onBudget(old, changed *metav1.PartialObjectMetadata) {
	if old == nil || changed == nil || old.Annotations[fleet.AnnotationDeletionBudget] == changed.Annotations[fleet.AnnotationDeletionBudget] {
		return
	}
	e.planAll(changed.Name)
	for _, repo := range e.cache.repos.List(changed.Name) {
		e.pruneQueue.Add(kube.KeyOf(repo))
		e.status[fleetstate.KindGitRepo].wake(kube.KeyOf(repo), true)
	}
}

// approval is the command that approves what is held of an object.
func approval(s fleetstate.Subject, hash string) string {
	kind := "bundle"
	if s.Kind == fleetstate.KindGitRepo {
		kind = "repo"
	}
	return fmt.Sprintf("fleet approve -n %s %s/%s %s", s.Key.Namespace, kind, s.Key.Name, hash)
}

// hold says on a Bundle or GitRepo what waits to be approved: in short in its
// condition, which the report of its status writes, and at length in an
// annotation.
func (e *budgets) hold(ctx context.Context, s fleetstate.Subject, obj kube.Object, v withdrawal.Verdict) error {
	before, _, _ := withdrawal.ReadText(obj.GetAnnotations()[fleet.AnnotationDeletionHeld])
	if err := e.list(ctx, obj, v.Text()); err != nil {
		return err
	}
	if !e.deletionBudget.setVerdict(s, v) {
		return nil
	}
	e.status[s.Kind].wake(s.Key, true)
	if before != v.Hash {
		message := v.Message(approval(s, v.Hash))
		e.events.Event(obj, kube.Warning, fleet.ReasonDeletionHeld, message)
		e.log.WithField("workspace", s.Key.Namespace).WithField("reason", message).Info("deletion held")
	}
	return nil
}

// unhold says on a Bundle or GitRepo that nothing waits any more, if it ever
// said so.
func (e *budgets) unhold(ctx context.Context, s fleetstate.Subject, obj kube.Object) error {
	_, listed := obj.GetAnnotations()[fleet.AnnotationDeletionHeld]
	_, said := e.deletionBudget.verdict(s)
	if !listed && !said && condition.Find(conditionsOf(obj), fleet.ConditionDeletionHeld) == nil {
		return nil
	}
	if err := e.list(ctx, obj, ""); err != nil {
		return err
	}
	if e.deletionBudget.setVerdict(s, withdrawal.Verdict{}) {
		e.status[s.Kind].wake(s.Key, true)
	}
	return nil
}

// list writes the annotation with what is held; an empty text takes it off.
func (e *budgets) list(ctx context.Context, obj kube.Object, text string) error {
	if obj.GetAnnotations()[fleet.AnnotationDeletionHeld] == text {
		return nil
	}
	var err error
	switch o := obj.(type) {
	case *fleet.Bundle:
		changed := o.DeepCopy()
		annotate(changed, text)
		if o, err = e.bundles.Patch(ctx, o, changed); err == nil {
			e.observe(o)
		}
	case *fleet.GitRepo:
		changed := o.DeepCopy()
		annotate(changed, text)
		if o, err = e.repos.Patch(ctx, o, changed); err == nil {
			o.ManagedFields = nil
			e.enqueue(e.table.SetRepo(o))
		}
	}
	if kube.IsGone(err) {
		return nil
	}
	return err
}

func annotate(obj kube.Object, text string) {
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
