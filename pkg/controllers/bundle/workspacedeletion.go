package bundle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A Bundle that is deleted because its namespace or its kind is being deleted is no
// order to remove what it deployed. A person decides, once for the workspace, by an
// annotation on its namespace: approve the list, or keep everything.

// A deletionState is what was decided about a Bundle that is being deleted.
type deletionState int

const (
	undecided deletionState = iota
	ordered                 // its deployments are withdrawn
	held                    // it waits for a person
	kept                    // it goes, and its deployments stay
)

type deletion struct {
	state   deletionState
	reason  string    // held: why it is no order
	message string    // held: of condition DeletionHeld
	guarded bool      // held: because it is protected, which is decided about it alone
	since   time.Time // ordered: when a person approved it; zero where that was not needed
}

// deletions remembers what was decided about Bundles that are being deleted. After a
// restart everything is decided again.
type deletions struct {
	mu    sync.Mutex
	byUID map[types.UID]deletion
}

func newDeletions() *deletions { return &deletions{byUID: map[types.UID]deletion{}} }

// get returns the decision about the deletion of a Bundle.
func (d *deletions) get(b *fleet.Bundle) deletion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byUID[b.UID]
}

// set stores a decision about the deletion of a Bundle, and reports whether it has
// changed.
func (d *deletions) set(b *fleet.Bundle, next deletion) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := d.byUID[b.UID] != next
	d.byUID[b.UID] = next
	return changed
}

func (d *deletions) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byUID, uid)
}

// guards decides about Bundles and GitRepos whose deletion is no order: because it came with
// a namespace or a kind, or because they are protected.
type guards struct {
	*base
	client         *kube.Client
	bundles        *kube.Store[*fleet.Bundle]
	repos          *kube.Store[*fleet.GitRepo]
	namespaces     *kube.Store[*corev1.Namespace]
	deletionBudget *deletionBudget
	deletions      *deletions
	budgets        *budgets
}

// reconcileDeletions decides about all Bundles of a workspace that are being deleted.
//
//  1. gather: the Bundles from the table, then, at the API server, since when their
//     namespace and their kinds exist
//  2. decide: withdrawal.Origin, withdrawal.Guard, withdrawal.JudgeUnordered (pure)
//  3. apply:  the list of what is held, on the namespace, and on each protected
//     Bundle; the Bundles' own loop does the rest
func (g *guards) reconcileDeletions(ctx context.Context, key kube.Key) (kube.Result, error) {
	workspace := key.Namespace
	if !g.cfg.Scope.Holds(workspace) {
		return kube.Done, nil
	}
	open, going, total := g.deletedIn(workspace) // before the look, so that the look is conclusive
	if len(open) == 0 {
		return kube.Done, g.listHeld(ctx, workspace, "", !going)
	}
	origins, err := g.budgets.originsOf(ctx, workspace, open)
	if err != nil {
		return kube.Done, err
	}
	open, guarded, why := g.unordered(open, origins)
	if len(open)+len(guarded) > 0 && !g.table.Settled() { // before, what other Bundles claim is not known
		return kube.Result{After: collectTime}, nil
	}
	next, err := g.reconcileProtected(ctx, guarded)
	if err != nil {
		return kube.Done, err
	}
	ns, err := g.namespaces.Get(ctx, kube.Key{Name: workspace})
	if err != nil && !kube.IsGone(err) {
		return kube.Done, err
	}
	word := ""
	if err == nil {
		word = ns.Annotations[fleet.AnnotationApproveDeletion]
	}
	v, waits := g.judgeDeletions(open, why, total, word)
	switch {
	case len(waits) == 0:
	case word == fleet.ApproveKeep:
		g.decideDeletions(waits, deletion{state: kept})
	case v.Approved:
		g.decideDeletions(waits, deletion{state: ordered, since: g.now()})
		g.log.WithField("workspace", workspace).WithField("reason", "approved as "+v.Hash).Info("deletions go on")
	default:
		if err := g.listHeld(ctx, workspace, v.Text(), false); err != nil {
			return kube.Done, err
		}
		g.decideDeletions(waits, deletion{state: held, reason: why, message: v.Message(approvalOf(workspace, v.Hash))})
		return kube.Result{After: heldAgain}, nil
	}
	return next, g.listHeld(ctx, workspace, "", false)
}

// approvalOf returns the command by which a user approves what is held of a workspace.
func approvalOf(workspace, hash string) string {
	return fmt.Sprintf("fleet approve workspace/%s %s, or --keep", workspace, hash)
}

// deletedIn returns the Bundles of a workspace that are being deleted and need a
// decision; going reports whether other Bundles are being deleted, total is the number
// of all Bundles.
func (g *guards) deletedIn(workspace string) (open []*fleet.Bundle, going bool, total int) {
	for _, key := range g.table.Bundles(workspace) {
		b, ok := g.table.Bundle(key)
		if !ok {
			continue
		}
		total++
		if b.DeletionTimestamp == nil || !slices.Contains(b.Finalizers, fleet.FinalizerBundle) {
			continue
		}
		if s := g.deletions.get(b).state; s == ordered || s == kept {
			going = true
			continue
		}
		open = append(open, b)
	}
	return open, going || len(open) > 0, total
}

// originsOf returns, by the label of their owner, since when the namespace and the
// kinds exist that the Bundles of a workspace need.
func (bg *budgets) originsOf(ctx context.Context, workspace string, list []*fleet.Bundle) (map[string]withdrawal.Origin, error) {
	var base withdrawal.Origin
	var err error
	if base.Namespace, err = bg.client.NamespaceLifetime(ctx, workspace); err != nil {
		return nil, err
	}
	if base.Kind, err = bg.client.KindLifetime(ctx, "Bundle"); err != nil {
		return nil, err
	}
	out := map[string]withdrawal.Origin{"": base}
	for _, b := range list {
		kind := ownerKind(b)
		if _, ok := out[kind]; ok {
			continue
		}
		o := base
		if o.Owner, err = bg.client.KindLifetime(ctx, kind); err != nil {
			return nil, err
		}
		out[kind] = o
	}
	return out, nil
}

// ownerKind returns the kind of the object that a Bundle was made for; empty if a user
// made it.
func ownerKind(b *fleet.Bundle) string {
	switch {
	case b.Labels[fleet.LabelHelmOpName] != "":
		return "HelmOp"
	case b.Labels[fleet.LabelRepoName] != "":
		return fleetstate.KindGitRepo
	}
	return ""
}

// unordered divides Bundles that are being deleted. rest are those whose deletion no
// user has ordered, because their namespace or kind is being deleted, and why is the
// reason; guarded are the protected ones. For all others it records that they may be
// deleted.
func (g *guards) unordered(open []*fleet.Bundle, origins map[string]withdrawal.Origin) (rest, guarded []*fleet.Bundle, why string) {
	reasons := map[string]bool{}
	for _, b := range open {
		reason := origins[ownerKind(b)].Unordered(b.DeletionTimestamp.Time)
		switch {
		case reason != "":
			reasons[reason] = true
			rest = append(rest, b)
		case g.protectionOf(b) != "":
			guarded = append(guarded, b)
		default:
			g.decideDeletions([]*fleet.Bundle{b}, deletion{state: ordered})
		}
	}
	return rest, guarded, strings.Join(slices.Sorted(maps.Keys(reasons)), " and ")
}

// judgeDeletions decides about Bundles whose deletion no user has ordered. It returns
// the verdict about those that wait for a user; word is the user's approval so far. It
// records the decision about Bundles whose deletion removes nothing.
func (g *guards) judgeDeletions(open []*fleet.Bundle, why string, total int, word string) (v withdrawal.Verdict, waits []*fleet.Bundle) {
	r := withdrawal.Removal{Unit: "bundle", Total: total, Approved: word}
	leaving := map[kube.Key]bool{}
	for _, b := range open {
		leaving[kube.KeyOf(b)] = true
	}
	for _, b := range open {
		item, removes, leaves := g.removedWith(b, leaving)
		switch {
		case removes:
			r.Items, waits = append(r.Items, item), append(waits, b)
		case leaves: // it was approved before this manager started
			g.decideDeletions([]*fleet.Bundle{b}, deletion{state: ordered, since: g.now()})
		default:
			g.decideDeletions([]*fleet.Bundle{b}, deletion{state: kept})
		}
	}
	return withdrawal.DecideUnordered(r, why), waits
}

// removedWith returns a Bundle as an item of a removal. removes reports whether its
// deletion would remove anything from a cluster, leaves whether a withdrawal is already
// ordered.
func (g *guards) removedWith(b *fleet.Bundle, leaving map[kube.Key]bool) (item withdrawal.Item, removes, leaves bool) {
	item = withdrawal.Item{Name: b.Name, UID: b.UID}
	deployments, _ := g.table.Deployments(kube.KeyOf(b))
	for cluster, bd := range deployments {
		_, known := g.table.AgentOf(cluster)
		ordered := withdrawal.Read(bd).Order != ""
		leaves = leaves || known && ordered
		if !known || ordered || bd.DeletionTimestamp != nil || bd.Spec.Options.KeepResources {
			continue
		}
		removes = true
		one, _ := g.budgets.removalItem(cluster, repoOf(b), bd, func(other kube.Key) bool { return leaving[other] })
		item.DataObjects = append(item.DataObjects, one.DataObjects...)
	}
	return item, removes, leaves
}

// decideDeletions stores a decision about Bundles, and enqueues those for which it has
// changed.
func (g *guards) decideDeletions(list []*fleet.Bundle, d deletion) {
	for _, b := range list {
		if g.deletions.set(b, d) {
			g.bundleQueue.AddFirst(kube.KeyOf(b))
			g.status[fleetstate.KindBundle].enqueue(kube.KeyOf(b), true)
		}
	}
}

// listHeld writes the list of what is held on the namespace of a workspace; an empty
// text removes the list. done says that nothing is held any more: then the user's
// approval is removed too.
func (g *guards) listHeld(ctx context.Context, workspace, text string, done bool) error {
	cached, ok := g.cache.mapped.namespaces.Get(kube.Key{Name: workspace})
	if text == "" && (!ok || cached.Annotations[fleet.AnnotationDeletionHeld] == "" && (!done || cached.Annotations[fleet.AnnotationApproveDeletion] == "")) {
		return nil
	}
	ns, err := g.namespaces.Get(ctx, kube.Key{Name: workspace})
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	before := ns.Annotations[fleet.AnnotationDeletionHeld]
	changed := ns.DeepCopy()
	putHeldAnnotation(changed, text)
	if done {
		delete(changed.Annotations, fleet.AnnotationApproveDeletion)
	}
	if maps.Equal(changed.Annotations, ns.Annotations) {
		return nil
	}
	if _, err := g.namespaces.Patch(ctx, ns, changed); err != nil {
		return err
	}
	if before != text && text != "" {
		_, summary, _ := withdrawal.ReadText(text)
		g.events.Event(ns, kube.Warning, fleet.ReasonDeletionHeld, summary)
		g.log.WithField("workspace", workspace).WithField("reason", summary).Info("deletion held")
	}
	return nil
}

// heldPlan is the plan of a Bundle that is being deleted and waits for a person.
func heldPlan(b *fleet.Bundle, d deletion) fleetstate.Plan {
	p := deletionPlan(b, "")
	p.Problem = &summary.Problem{Reason: fleet.ReasonDeletionHeld, Message: d.reason + ": what is deployed stays until a person decides"}
	return p
}

// setDeletionHeld sets condition DeletionHeld of a Bundle that is being deleted.
func (g *guards) setDeletionHeld(list []fleet.Condition, b *fleet.Bundle) []fleet.Condition {
	d := g.deletions.get(b)
	switch d.state {
	case undecided:
		return list
	case held:
		return condition.Set(list, fleet.Condition{
			Type: fleet.ConditionDeletionHeld, Status: corev1.ConditionTrue, ObservedGeneration: b.Generation,
			Reason: heldReason(d.guarded), Message: d.message,
		}, g.now())
	}
	return condition.Remove(list, fleet.ConditionDeletionHeld)
}

// onApproval enqueues the decision about a workspace when a user has approved
// something.
func (g *guards) onApproval(old, changed *metav1.PartialObjectMetadata) {
	if changed == nil {
		return
	}
	was := ""
	if old != nil {
		was = old.Annotations[fleet.AnnotationApproveDeletion]
	}
	if was != changed.Annotations[fleet.AnnotationApproveDeletion] {
		g.deletionQueue.Add(kube.Key{Namespace: changed.Name})
	}
}
