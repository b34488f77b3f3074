package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// reasonDeleting is the reason of a Bundle that is being deleted not to be
// Ready.
const reasonDeleting = "Deleting"

// removeBundle withdraws all deployments of a Bundle that is being deleted, and removes
// the Bundle's finalizer when they do not exist any more. No pace applies, because a
// user has deleted the Bundle. A Bundle that is deleted with its namespace or its kind
// waits for a user's approval.
func (w *withdrawals) removeBundle(ctx context.Context, b *fleet.Bundle) (kube.Result, error) {
	key := kube.KeyOf(b)
	w.enqueueWaiting(key)
	if !slices.Contains(b.Finalizers, fleet.FinalizerBundle) { // another finalizer keeps it
		w.enqueue(w.table.SetPlan(key, deletionPlan(b, "")))
		return kube.Done, nil
	}
	d := w.deletions.get(b)
	switch d.state {
	case undecided, held:
		w.deletionQueue.Add(kube.Key{Namespace: key.Namespace})
		plan := deletionPlan(b, "")
		if d.state == held {
			plan = heldPlan(b, d)
		}
		w.enqueue(w.table.SetPlan(key, plan))
		return kube.Done, nil
	case kept:
		w.enqueue(w.table.SetPlan(key, deletionPlan(b, "")))
		return w.keepDeployments(ctx, b)
	case ordered:
	}
	reason, rest, err := w.withdrawAll(ctx, b)
	remnants, since := w.remainingDeployments(key, b, d)
	ok, why, recheck := withdrawal.Release(remnants, w.now().Sub(since))
	if reason == "" {
		reason = why
	}
	w.enqueue(w.table.SetPlan(key, deletionPlan(b, reason))) // also after an error: other Bundles wait for each deployment
	switch {
	case err != nil:
		return kube.Done, err
	case rest:
		return again, nil
	case !ok:
		return kube.Result{After: recheck}, nil
	}
	return kube.Done, w.removeFinalizer(ctx, b, len(remnants))
}

// deletionPlan returns the plan of a Bundle that is being deleted.
func deletionPlan(b *fleet.Bundle, withdrawing string) fleetstate.Plan {
	return fleetstate.Plan{
		Generation: b.Generation, Complete: true, Withdrawing: withdrawing, ResourcesDigest: b.Status.ResourcesSHA256Sum,
		Problem: &summary.Problem{Reason: reasonDeleting, Message: "the Bundle is being deleted"},
	}
}

// withdrawAll orders the withdrawal of the deployments of a Bundle, for at most one
// time slice. blocked is why some orders must wait; rest reports that deployments are
// left.
func (w *withdrawals) withdrawAll(ctx context.Context, b *fleet.Bundle) (blocked string, rest bool, err error) {
	key := kube.KeyOf(b)
	hold := w.suspension()
	w.setWaiting(key)
	turn := w.slots.newTurn()
	deployments, _ := w.table.Deployments(key)
	for cluster, bd := range deployments {
		if withdrawal.Read(bd).Order != "" || bd.DeletionTimestamp != nil {
			continue
		}
		l := &staleDeployment{cluster: cluster, bd: bd, reason: "the Bundle is being deleted"}
		action, why := w.decideNext(key, l, hold)
		if l.action = action; action == withdrawal.Wait {
			if blocked == "" || why < blocked {
				blocked = why
			}
			continue
		}
		if rest = turn.isOver(); rest {
			break
		}
		turn.write(func() error { return w.withdrawOrDelete(ctx, key, l) }, nil)
	}
	err = turn.wait()
	w.clearWaiting(key, blocked != "")
	return blocked, rest, err
}

// remainingDeployments returns the deployments of a deleted Bundle that still exist,
// and since when they may be deleted. Agents in a namespace that is being deleted
// cannot check in; they do not count as offline.
func (w *withdrawals) remainingDeployments(key kube.Key, b *fleet.Bundle, d deletion) (out []withdrawal.Remnant, since time.Time) {
	since = b.DeletionTimestamp.Time
	if !d.since.IsZero() {
		since = d.since
	}
	deployments, _ := w.table.Deployments(key)
	for cluster, bd := range deployments {
		agent, known := w.table.AgentOf(cluster)
		out = append(out, withdrawal.Remnant{
			Cluster: cluster.String(),
			Ordered: withdrawal.Read(bd).Order != "" || bd.DeletionTimestamp != nil,
			Offline: !known || agent.Life == summary.Offline && d.since.IsZero(),
			Silent:  !agent.Alive.After(since),
		})
	}
	slices.SortFunc(out, func(a, b withdrawal.Remnant) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out, since
}

// removeFinalizer deletes the values of a Bundle and its artifact in a registry, and
// then removes the manager's finalizer.
func (w *withdrawals) removeFinalizer(ctx context.Context, b *fleet.Bundle, left int) error {
	secret, err := w.valuesOf(ctx, b)
	if err != nil {
		return err
	}
	if secret != nil {
		if err := w.secrets.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: secret.UID}); err != nil {
			return err
		}
	}
	if err := w.content.deleteBundleArtifact(ctx, b); err != nil {
		return err
	}
	if _, err := w.bundles.RemoveFinalizer(ctx, b, fleet.FinalizerBundle); err != nil && !kube.IsGone(err) {
		return fmt.Errorf("let the Bundle go: %w", err)
	}
	log := w.logFor(kube.KeyOf(b))
	if left > 0 {
		log = log.WithField("reason", fmt.Sprintf("%d deployments stay as orders for clusters that are away", left))
	}
	log.Info("bundle gone")
	return nil
}

// keepDeployments lets a Bundle be deleted and keeps its deployments. It marks them
// first: the manager would withdraw unmarked deployments without a Bundle.
func (w *withdrawals) keepDeployments(ctx context.Context, b *fleet.Bundle) (kube.Result, error) {
	deployments, _ := w.table.Deployments(kube.KeyOf(b))
	turn, rest := w.slots.newTurn(), false
	for _, bd := range deployments {
		if withdrawal.Read(bd).Order != "" || bd.DeletionTimestamp != nil || bd.Annotations[fleet.AnnotationKept] != "" {
			continue
		}
		if rest = turn.isOver(); rest {
			break
		}
		turn.write(func() error { return w.markKept(ctx, bd) }, nil)
	}
	if err := turn.wait(); err != nil {
		return kube.Done, err
	}
	if rest {
		return again, nil
	}
	return kube.Done, w.removeFinalizer(ctx, b, 0)
}

// markKept marks a deployment that stays although its Bundle is deleted.
func (w *withdrawals) markKept(ctx context.Context, bd *fleet.BundleDeployment) error {
	changed := bd.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[fleet.AnnotationKept] = "true"
	got, err := w.deployments.Patch(ctx, bd, changed)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep deployment %q: %w", kube.KeyOf(bd), err)
	}
	w.stripDeployment(got)
	w.enqueue(w.table.SetDeployment(got))
	return nil
}
