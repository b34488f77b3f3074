package bundle

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// orphanGrace is how long a deployment without its Bundle is left alone: the
// Bundle may be about to be restored.
const orphanGrace = 10 * time.Minute

// withdrawals orders agents to uninstall deployments that are not desired any more, and
// deletes the BundleDeployments that agents have uninstalled.
type withdrawals struct {
	*base
	bundles     *kube.Store[*fleet.Bundle]
	deployments *kube.Store[*fleet.BundleDeployment]
	secrets     *kube.Store[*corev1.Secret]
	slots       *slots
	deletions   *deletions
	budgets     *budgets
	content     *contentController
	pairs       *pairState

	mu      sync.Mutex
	orphans map[kube.Key]time.Time
	paces   map[kube.Key]withdrawal.Pace
	waiting map[kube.Key]map[kube.Key]fleetstate.PendingCreates // Bundles whose withdrawals wait for others, and those of the others
}

// withdraw orders the withdrawal of deployments that are no longer desired, within the
// deletion budget, and at a pace that leaves a user time to undo a mistake. What a user
// has approved is withdrawn at once. withdraw skips deployments with an order:
// reconcileWithdrawal handles them.
func (w *withdrawals) withdraw(ctx context.Context, s *snapshot, d *decision) (kube.Result, error) {
	if len(d.leaving) > 0 {
		w.setWaiting(s.key)
	}
	var open, kept, ordered []*staleDeployment
	for _, l := range d.leaving {
		switch {
		case withdrawal.Read(l.bd).Order != "":
		case l.ordered:
			ordered = append(ordered, l)
		case l.bd.Spec.Options.KeepResources:
			kept = append(kept, l) // nothing is removed
		default:
			open = append(open, l)
		}
	}
	free, approved, again, err := w.budgets.withinBudget(ctx, s, open)
	if err != nil {
		return kube.Done, err
	}
	ready, blocked := w.ready(s, append(free, kept...))
	now, alsoBlocked := w.ready(s, append(approved, ordered...))
	w.clearWaiting(s.key, blocked || alsoBlocked)
	next, paced := kube.Result{After: again}, 0
	if len(ready) > 0 {
		allowed, after := w.takePace(s.key, len(ready), len(s.deployments))
		now, next, paced = append(now, ready[:allowed]...), next.Sooner(after), allowed
	}
	for i, l := range now {
		if err := w.withdrawOrDelete(ctx, s.key, l); err != nil {
			w.returnPace(s.key, min(paced, len(now)-i)) // they come last
			return kube.Done, err
		}
	}
	return next, nil
}

// ready returns the deployments that can be withdrawn now. blocked reports that others
// have to wait for something.
func (w *withdrawals) ready(s *snapshot, list []*staleDeployment) (ready []*staleDeployment, blocked bool) {
	for _, l := range list {
		if l.action, _ = w.decideNext(s.key, l, s.hold); l.action == withdrawal.Wait {
			blocked = true
			continue
		}
		ready = append(ready, l)
	}
	return ready, blocked
}

// decideNext decides the next action for a deployment that is not desired any more.
// hold is why the manager must not write; empty: it may.
func (w *withdrawals) decideNext(bundle kube.Key, l *staleDeployment, hold string) (withdrawal.Action, string) {
	f := withdrawal.Read(l.bd)
	agent, known := w.table.AgentOf(l.cluster)
	f.Orphaned = !known
	f.Orders = agent.Protocol > 0 || agent.Life == summary.NeverSeen && l.bd.Status.AppliedDeploymentID != ""
	f.Blocked = hold
	if f.Blocked == "" {
		f.Blocked = w.table.Blocker(bundle, l.cluster)
	}
	return withdrawal.Decide(f)
}

// takePace returns how many of want withdrawals the Bundle's pace allows now, and when
// it allows more.
func (w *withdrawals) takePace(key kube.Key, want, total int) (int, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, next, after := w.paces[key].Take(want, total, w.now())
	w.paces[key] = next
	return n, after
}

// returnPace returns n withdrawals that takePace allowed and that were not ordered.
func (w *withdrawals) returnPace(key kube.Key, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paces[key] = w.paces[key].Return(n)
}

// setWaiting records that withdrawals of a Bundle may wait for other Bundles of its
// repository. The caller calls it before it decides, so that a change of the others in
// between enqueues the Bundle.
func (w *withdrawals) setWaiting(key kube.Key) {
	holds := w.table.SiblingPendingCreates(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[key] = holds
}

// clearWaiting drops the record of setWaiting unless withdrawals wait.
func (w *withdrawals) clearWaiting(key kube.Key, waits bool) {
	if waits {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, key)
}

// enqueueWaiting enqueues the Bundles of the same repository whose withdrawals wait, if
// they were decided with an older state of this Bundle. Without this condition two
// waiting Bundles would enqueue each other without end.
func (w *withdrawals) enqueueWaiting(key kube.Key) {
	now := w.table.PendingCreatesOf(key)
	for _, sibling := range w.table.Siblings(key) {
		w.mu.Lock()
		holds, waits := w.waiting[sibling]
		w.mu.Unlock()
		if waits && holds[key] != now {
			w.bundleQueue.Add(sibling)
		}
	}
}

// withdrawOrDelete carries out the action of decideNext: it orders the agent to
// withdraw a deployment, or deletes the BundleDeployment.
func (w *withdrawals) withdrawOrDelete(ctx context.Context, bundle kube.Key, l *staleDeployment) error {
	log := w.logFor(bundle).WithField("cluster", l.cluster.String()).WithField("reason", l.reason)
	if l.action == withdrawal.Delete {
		if err := w.deleteDeployment(ctx, l.bd); err != nil {
			return err
		}
		log.Info("deployment deleted")
		return nil
	}
	changed := l.bd.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[fleet.AnnotationWithdrawn] = rand.Text() // the unique id of the order
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == fleet.FinalizerBundleDeployment })
	got, err := w.deployments.Patch(ctx, l.bd, changed)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("withdraw from cluster %q: %w", l.cluster, err)
	}
	w.stripDeployment(got)
	w.enqueue(w.table.SetDeployment(got))
	log.Info("deployment withdrawn")
	return nil
}

// deleteDeployment deletes a BundleDeployment in the version that was judged, and then
// the Secret with its values.
func (w *withdrawals) deleteDeployment(ctx context.Context, bd *fleet.BundleDeployment) error {
	key := kube.KeyOf(bd)
	err := w.deployments.Delete(ctx, key, kube.Precondition{UID: bd.UID, ResourceVersion: bd.ResourceVersion})
	if err != nil {
		return err
	}
	if len(bd.Finalizers) > 0 {
		return nil // its deletion event comes later
	}
	return w.deleteValues(ctx, key, bd.UID)
}

// deleteValues deletes the Secret with the values of a deployment that does not exist
// any more. erased is the UID of the BundleDeployment that was just deleted: the table
// may still have it.
func (w *withdrawals) deleteValues(ctx context.Context, key kube.Key, erased types.UID) error {
	meta, ok := w.cache.secrets.Get(key)
	if !ok || meta.Labels[fleet.LabelBundleName] == "" {
		return nil
	}
	if there, exists := w.table.Deployment(key); exists && there.UID != erased {
		if _, err := w.deployments.Get(ctx, key); !kube.IsGone(err) {
			return err
		}
	}
	if w.pairs.isWriting(key) {
		return nil // it is made again
	}
	err := w.secrets.Delete(ctx, key, kube.Precondition{UID: meta.UID, ResourceVersion: meta.ResourceVersion})
	if kube.IsConflict(err) {
		return nil // the Secret was written since, for a new deployment
	}
	return err
}

// reconcileWithdrawal handles one deployment that is being withdrawn: it strips the
// finalizer of rancher/fleet, deletes what an agent has uninstalled, and orders the
// withdrawal of a deployment without Bundle.
func (w *withdrawals) reconcileWithdrawal(ctx context.Context, key kube.Key) (kube.Result, error) {
	if w.ownedByOther(key) {
		return kube.Done, nil
	}
	bd, ok := w.table.Deployment(key)
	if !ok {
		w.orphanSince(key, false)
		return kube.Done, w.deleteValues(ctx, key, "")
	}
	if bd.DeletionTimestamp != nil {
		return kube.Done, w.stripForeignFinalizer(ctx, bd)
	}
	bundle, cluster, _ := w.table.PairOf(key)
	l := &staleDeployment{cluster: cluster, bd: bd, reason: "uninstalled as ordered"}
	if withdrawal.Read(bd).Order == "" {
		return w.withdrawOrphan(ctx, bundle, l)
	}
	if action, _ := w.decideNext(bundle, l, ""); action != withdrawal.Delete {
		return kube.Done, nil
	}
	if err := w.deleteDeployment(ctx, bd); err != nil {
		return kube.Done, err
	}
	w.logFor(bundle).WithField("cluster", cluster.String()).Info("deployment gone")
	return kube.Done, nil
}

// stripForeignFinalizer removes the finalizer of rancher/fleet from a deployment that
// is being deleted.
func (w *withdrawals) stripForeignFinalizer(ctx context.Context, bd *fleet.BundleDeployment) error {
	_, err := w.deployments.RemoveFinalizer(ctx, bd, fleet.FinalizerBundleDeployment)
	return kube.IgnoreGone(err)
}

// withdrawOrphan orders the withdrawal of a deployment whose Bundle has been missing
// for orphanGrace, without the manager's finalizer having run. It asks the API server,
// because the cache may lack the Bundle.
func (w *withdrawals) withdrawOrphan(ctx context.Context, bundle kube.Key, l *staleDeployment) (kube.Result, error) {
	key := kube.KeyOf(l.bd)
	_, alive := w.table.Bundle(bundle)
	_, known := w.table.AgentOf(l.cluster)
	if alive || !known {
		w.orphanSince(key, false)
		return kube.Done, nil
	}
	if l.bd.Annotations[fleet.AnnotationKept] != "" { // a user has deleted the Bundle and keeps the deployment
		return kube.Done, nil
	}
	since := w.orphanSince(key, true)
	if left := orphanGrace - w.now().Sub(since); left > 0 {
		return kube.Result{After: left}, nil
	}
	if _, err := w.bundles.Get(ctx, bundle); !kube.IsGone(err) {
		return kube.Result{After: orphanGrace}, err
	}
	if w.suspension() != "" {
		return kube.Result{After: orphanGrace}, nil
	}
	why, err := w.budgets.bundleUnorderedReason(ctx, bundle, l.bd.CreationTimestamp.Time)
	if err != nil || why != "" {
		return kube.Result{After: orphanGrace}, err
	}
	l.reason = "its Bundle is gone"
	if l.action, _ = w.decideNext(bundle, l, ""); l.action == withdrawal.Wait {
		return kube.Result{After: orphanGrace}, nil
	}
	return kube.Done, w.withdrawOrDelete(ctx, bundle, l)
}

// orphanSince records whether the Bundle of a deployment is missing, and returns since
// when.
func (w *withdrawals) orphanSince(key kube.Key, orphaned bool) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !orphaned {
		delete(w.orphans, key)
		return time.Time{}
	}
	if _, ok := w.orphans[key]; !ok {
		w.orphans[key] = w.now()
	}
	return w.orphans[key]
}

// enqueueValues enqueues the Secrets of deployments that do not exist, which a manager
// leaves behind when it stops between two writes. It enqueues a recent Secret later:
// its deployment may be about to be written.
func (w *withdrawals) enqueueValues() {
	for _, s := range w.cache.secrets.List("") {
		key := kube.KeyOf(s)
		if s.Labels[fleet.LabelBundleName] == "" {
			continue
		}
		if _, ok := w.table.Deployment(key); !ok {
			w.withdrawalQueue.AddAfter(key, max(time.Millisecond, orphanGrace-w.now().Sub(s.CreationTimestamp.Time)))
		}
	}
	for _, bd := range w.table.All() {
		if _, ok := w.cache.secrets.Get(kube.KeyOf(bd)); !ok && bd.Spec.ValuesHash != "" {
			w.pairs.markStale(kube.KeyOf(bd))
			if key, _, ok := w.table.PairOf(kube.KeyOf(bd)); ok {
				w.bundleQueue.Add(key)
			}
		}
	}
}

// valuesOf returns the Secret with the values of a Bundle; nil if it has none.
func (w *withdrawals) valuesOf(ctx context.Context, b *fleet.Bundle) (*corev1.Secret, error) {
	if b.Spec.ValuesHash == "" {
		return nil, nil
	}
	s, err := w.secrets.Get(ctx, kube.KeyOf(b))
	if kube.IsGone(err) || err == nil && s.Type != fleet.SecretTypeBundleValues {
		return nil, nil
	}
	return s, err
}

// enqueueLeaving enqueues a deployment that is being withdrawn or deleted, or has no
// Bundle.
func (w *withdrawals) enqueueLeaving(bd *fleet.BundleDeployment) {
	key, _, ok := w.table.PairOf(kube.KeyOf(bd))
	if !ok {
		return
	}
	_, alive := w.table.Bundle(key)
	if bd.DeletionTimestamp != nil || !alive || withdrawal.Read(bd).Order != "" {
		w.withdrawalQueue.Add(kube.KeyOf(bd))
	}
}

// forget drops what is remembered of the withdrawals of a Bundle.
func (w *withdrawals) forget(key kube.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.paces, key)
	delete(w.waiting, key)
}
