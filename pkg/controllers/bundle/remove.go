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

// remove withdraws all deployments of a Bundle that is being deleted, and removes the
// Bundle's finalizer when they are gone. A user has asked for it, so there is no pace;
// a Bundle that is deleted with its namespace or its kind waits for a user.
func (e *withdrawals) remove(ctx context.Context, b *fleet.Bundle) (kube.Result, error) {
	key := kube.KeyOf(b)
	e.release(key)
	if !slices.Contains(b.Finalizers, fleet.FinalizerBundle) { // another finalizer keeps it
		e.enqueue(e.table.SetPlan(key, leavingPlan(b, "")))
		return kube.Done, nil
	}
	d := e.deletions.of(b)
	switch d.state {
	case undecided, held:
		e.deletionQueue.Add(kube.Key{Namespace: key.Namespace})
		plan := leavingPlan(b, "")
		if d.state == held {
			plan = heldPlan(b, d)
		}
		e.enqueue(e.table.SetPlan(key, plan))
		return kube.Done, nil
	case kept:
		e.enqueue(e.table.SetPlan(key, leavingPlan(b, "")))
		return e.keep(ctx, b)
	case ordered:
	}
	reason, rest, err := e.dismiss(ctx, b)
	remnants, since := e.remnants(key, b, d)
	ok, why, recheck := withdrawal.Release(remnants, e.now().Sub(since))
	if reason == "" {
		reason = why
	}
	e.enqueue(e.table.SetPlan(key, leavingPlan(b, reason))) // even if a step fails: others wait for each
	switch {
	case err != nil:
		return kube.Done, err
	case rest:
		return again, nil
	case !ok:
		return kube.Result{After: recheck}, nil
	}
	return kube.Done, e.letGo(ctx, b, len(remnants))
}

// leavingPlan is the plan of a Bundle that is being deleted.
func leavingPlan(b *fleet.Bundle, withdrawing string) fleetstate.Plan {
	return fleetstate.Plan{
		Generation: b.Generation, Complete: true, Withdrawing: withdrawing, ResourcesDigest: b.Status.ResourcesSHA256Sum,
		Problem: &summary.Problem{Reason: reasonDeleting, Message: "the Bundle is being deleted"},
	}
}

// dismiss orders the withdrawal of all deployments of a Bundle, for at most a slice of
// time. It returns what blocks an order, if anything does, and whether there are more.
func (e *withdrawals) dismiss(ctx context.Context, b *fleet.Bundle) (blocked string, rest bool, err error) {
	key := kube.KeyOf(b)
	hold, _ := e.brake()
	e.wait(key)
	turn := e.slots.turn()
	deployments, _ := e.table.Deployments(key)
	for cluster, bd := range deployments {
		if withdrawal.Read(bd).Order != "" || bd.DeletionTimestamp != nil {
			continue
		}
		l := &staleDeployment{cluster: cluster, bd: bd, reason: "the Bundle is being deleted"}
		action, why := e.judge(key, l, hold)
		if l.action = action; action == withdrawal.Wait {
			if blocked == "" || why < blocked {
				blocked = why
			}
			continue
		}
		if rest = turn.over(); rest {
			break
		}
		turn.write(func() error { return e.order(ctx, key, l) }, nil)
	}
	err = turn.wait()
	e.judged(key, blocked != "")
	return blocked, rest, err
}

// remnants are the deployments of a deleted Bundle that are still there, and since when
// they may be gone. Agents of a namespace that is being deleted cannot check in any
// more, which does not mean that they are offline.
func (e *withdrawals) remnants(key kube.Key, b *fleet.Bundle, d deletion) (out []withdrawal.Remnant, since time.Time) {
	since = b.DeletionTimestamp.Time
	if !d.since.IsZero() {
		since = d.since
	}
	deployments, _ := e.table.Deployments(key)
	for cluster, bd := range deployments {
		agent, known := e.table.AgentOf(cluster)
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

// letGo deletes the values of a Bundle and its artifact in a registry, and removes its
// finalizer.
func (e *withdrawals) letGo(ctx context.Context, b *fleet.Bundle, left int) error {
	secret, err := e.valuesOf(ctx, b)
	if err != nil {
		return err
	}
	if secret != nil {
		if err := e.secrets.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: secret.UID}); err != nil {
			return err
		}
	}
	if err := e.content.dismissArtifact(ctx, b); err != nil {
		return err
	}
	changed := b.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == fleet.FinalizerBundle })
	if _, err := e.bundles.Patch(ctx, b, changed); err != nil && !kube.IsGone(err) {
		return fmt.Errorf("let the Bundle go: %w", err)
	}
	log := e.logFor(kube.KeyOf(b))
	if left > 0 {
		log = log.WithField("reason", fmt.Sprintf("%d deployments stay as orders for clusters that are away", left))
	}
	log.Info("bundle gone")
	return nil
}

// keep lets a Bundle be deleted and leaves its deployments as they are. They bear a
// mark, without which the manager would withdraw them because their Bundle is missing.
func (e *withdrawals) keep(ctx context.Context, b *fleet.Bundle) (kube.Result, error) {
	deployments, _ := e.table.Deployments(kube.KeyOf(b))
	turn, rest := e.slots.turn(), false
	for _, bd := range deployments {
		if withdrawal.Read(bd).Order != "" || bd.DeletionTimestamp != nil || bd.Annotations[fleet.AnnotationKept] != "" {
			continue
		}
		if rest = turn.over(); rest {
			break
		}
		turn.write(func() error { return e.markKept(ctx, bd) }, nil)
	}
	if err := turn.wait(); err != nil {
		return kube.Done, err
	}
	if rest {
		return again, nil
	}
	return kube.Done, e.letGo(ctx, b, 0)
}

func (e *withdrawals) markKept(ctx context.Context, bd *fleet.BundleDeployment) error {
	changed := bd.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[fleet.AnnotationKept] = "true"
	got, err := e.deployments.Patch(ctx, bd, changed)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep deployment %q: %w", kube.KeyOf(bd), err)
	}
	e.stripDeployment(got)
	e.enqueue(e.table.SetDeployment(got))
	return nil
}
