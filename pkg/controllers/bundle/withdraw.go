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
func (e *withdrawals) withdraw(ctx context.Context, s *snapshot, d *decision) (kube.Result, error) {
	if len(d.leaving) > 0 {
		e.setWaiting(s.key)
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
	free, approved, again, err := e.budgets.withinBudget(ctx, s, open)
	if err != nil {
		return kube.Done, err
	}
	ready, blocked := e.ready(s, append(free, kept...))
	now, alsoBlocked := e.ready(s, append(approved, ordered...))
	e.clearWaiting(s.key, blocked || alsoBlocked)
	next, paced := kube.Result{After: again}, 0
	if len(ready) > 0 {
		allowed, after := e.takePace(s.key, len(ready), len(s.deployments))
		now, next, paced = append(now, ready[:allowed]...), next.Sooner(after), allowed
	}
	for i, l := range now {
		if err := e.withdrawOrDelete(ctx, s.key, l); err != nil {
			e.returnPace(s.key, min(paced, len(now)-i)) // they come last
			return kube.Done, err
		}
	}
	return next, nil
}

// ready returns the deployments that can be withdrawn now. blocked reports that others
// have to wait for something.
func (e *withdrawals) ready(s *snapshot, list []*staleDeployment) (ready []*staleDeployment, blocked bool) {
	for _, l := range list {
		if l.action, _ = e.decideNext(s.key, l, s.hold); l.action == withdrawal.Wait {
			blocked = true
			continue
		}
		ready = append(ready, l)
	}
	return ready, blocked
}

// decideNext decides the next action for a deployment that is not desired any more.
// hold is why the manager must not write; empty: it may.
func (e *withdrawals) decideNext(bundle kube.Key, l *staleDeployment, hold string) (withdrawal.Action, string) {
	f := withdrawal.Read(l.bd)
	agent, known := e.table.AgentOf(l.cluster)
	f.Orphaned = !known
	f.Orders = agent.Protocol > 0 || agent.Life == summary.NeverSeen && l.bd.Status.AppliedDeploymentID != ""
	f.Blocked = hold
	if f.Blocked == "" {
		f.Blocked = e.table.Blocker(bundle, l.cluster)
	}
	return withdrawal.Decide(f)
}

// takePace returns how many of want withdrawals the Bundle's pace allows now, and when
// it allows more.
func (e *withdrawals) takePace(key kube.Key, want, total int) (int, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, next, after := e.paces[key].Take(want, total, e.now())
	e.paces[key] = next
	return n, after
}

// returnPace returns n withdrawals that takePace allowed and that were not ordered.
func (e *withdrawals) returnPace(key kube.Key, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paces[key] = e.paces[key].Return(n)
}

// setWaiting records that withdrawals of a Bundle may wait for other Bundles of its
// repository. The caller calls it before it decides, so that a change of the others in
// between enqueues the Bundle.
func (e *withdrawals) setWaiting(key kube.Key) {
	holds := e.table.SiblingPendingCreates(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[key] = holds
}

// clearWaiting drops the record of setWaiting unless withdrawals wait.
func (e *withdrawals) clearWaiting(key kube.Key, waits bool) {
	if waits {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, key)
}

// enqueueWaiting enqueues the Bundles of the same repository whose withdrawals wait, if
// they were decided with an older state of this Bundle. Without this condition two
// waiting Bundles would enqueue each other without end.
func (e *withdrawals) enqueueWaiting(key kube.Key) {
	now := e.table.PendingCreatesOf(key)
	for _, sibling := range e.table.Siblings(key) {
		e.mu.Lock()
		holds, waits := e.waiting[sibling]
		e.mu.Unlock()
		if waits && holds[key] != now {
			e.bundleQueue.Add(sibling)
		}
	}
}

// withdrawOrDelete carries out the action of decideNext: it orders the agent to
// withdraw a deployment, or deletes the BundleDeployment.
func (e *withdrawals) withdrawOrDelete(ctx context.Context, bundle kube.Key, l *staleDeployment) error {
	log := e.logFor(bundle).WithField("cluster", l.cluster.String()).WithField("reason", l.reason)
	if l.action == withdrawal.Delete {
		if err := e.deleteDeployment(ctx, l.bd); err != nil {
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
	got, err := e.deployments.Patch(ctx, l.bd, changed)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("withdraw from cluster %q: %w", l.cluster, err)
	}
	e.stripDeployment(got)
	e.enqueue(e.table.SetDeployment(got))
	log.Info("deployment withdrawn")
	return nil
}

// deleteDeployment deletes a BundleDeployment in the version that was judged, and then
// the Secret with its values.
func (e *withdrawals) deleteDeployment(ctx context.Context, bd *fleet.BundleDeployment) error {
	key := kube.KeyOf(bd)
	err := e.deployments.Delete(ctx, key, kube.Precondition{UID: bd.UID, ResourceVersion: bd.ResourceVersion})
	if err != nil {
		return err
	}
	if len(bd.Finalizers) > 0 {
		return nil // its deletion event comes later
	}
	return e.deleteValues(ctx, key, bd.UID)
}

// deleteValues deletes the Secret with the values of a deployment that does not exist
// any more. erased is the UID of the BundleDeployment that was just deleted: the table
// may still have it.
func (e *withdrawals) deleteValues(ctx context.Context, key kube.Key, erased types.UID) error {
	meta, ok := e.cache.secrets.Get(key)
	if !ok || meta.Labels[fleet.LabelBundleName] == "" {
		return nil
	}
	if there, exists := e.table.Deployment(key); exists && there.UID != erased {
		if _, err := e.deployments.Get(ctx, key); !kube.IsGone(err) {
			return err
		}
	}
	if e.pairs.isWriting(key) {
		return nil // it is made again
	}
	err := e.secrets.Delete(ctx, key, kube.Precondition{UID: meta.UID, ResourceVersion: meta.ResourceVersion})
	if kube.IsConflict(err) {
		return nil // the Secret was written since, for a new deployment
	}
	return err
}

// reconcileWithdrawal handles one deployment that is being withdrawn: it strips the
// finalizer of rancher/fleet, deletes what an agent has uninstalled, and orders the
// withdrawal of a deployment without Bundle.
func (e *withdrawals) reconcileWithdrawal(ctx context.Context, key kube.Key) (kube.Result, error) {
	if e.ownedByOther(key) {
		return kube.Done, nil
	}
	bd, ok := e.table.Deployment(key)
	if !ok {
		e.orphanSince(key, false)
		return kube.Done, e.deleteValues(ctx, key, "")
	}
	if bd.DeletionTimestamp != nil {
		return kube.Done, e.stripForeignFinalizer(ctx, bd)
	}
	bundle, cluster, _ := e.table.PairOf(key)
	l := &staleDeployment{cluster: cluster, bd: bd, reason: "uninstalled as ordered"}
	if withdrawal.Read(bd).Order == "" {
		return e.withdrawOrphan(ctx, bundle, l)
	}
	if action, _ := e.decideNext(bundle, l, ""); action != withdrawal.Delete {
		return kube.Done, nil
	}
	if err := e.deleteDeployment(ctx, bd); err != nil {
		return kube.Done, err
	}
	e.logFor(bundle).WithField("cluster", cluster.String()).Info("deployment gone")
	return kube.Done, nil
}

// stripForeignFinalizer removes the finalizer of rancher/fleet from a deployment that
// is being deleted.
func (e *withdrawals) stripForeignFinalizer(ctx context.Context, bd *fleet.BundleDeployment) error {
	if !slices.Contains(bd.Finalizers, fleet.FinalizerBundleDeployment) {
		return nil
	}
	changed := bd.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == fleet.FinalizerBundleDeployment })
	_, err := e.deployments.Patch(ctx, bd, changed)
	if kube.IsGone(err) {
		return nil
	}
	return err
}

// withdrawOrphan orders the withdrawal of a deployment whose Bundle has been missing
// for orphanGrace, without the manager's finalizer having run. It asks the API server,
// because the cache may lack the Bundle.
func (e *withdrawals) withdrawOrphan(ctx context.Context, bundle kube.Key, l *staleDeployment) (kube.Result, error) {
	key := kube.KeyOf(l.bd)
	_, alive := e.table.Bundle(bundle)
	_, known := e.table.AgentOf(l.cluster)
	if alive || !known {
		e.orphanSince(key, false)
		return kube.Done, nil
	}
	if l.bd.Annotations[fleet.AnnotationKept] != "" { // a user has deleted the Bundle and keeps the deployment
		return kube.Done, nil
	}
	since := e.orphanSince(key, true)
	if left := orphanGrace - e.now().Sub(since); left > 0 {
		return kube.Result{After: left}, nil
	}
	if _, err := e.bundles.Get(ctx, bundle); !kube.IsGone(err) {
		return kube.Result{After: orphanGrace}, err
	}
	if why, _ := e.holdReason(bundle.Namespace); why != "" {
		return kube.Result{After: orphanGrace}, nil
	}
	why, err := e.budgets.bundleUnorderedReason(ctx, bundle, l.bd.CreationTimestamp.Time)
	if err != nil || why != "" {
		return kube.Result{After: orphanGrace}, err
	}
	l.reason = "its Bundle is gone"
	if l.action, _ = e.decideNext(bundle, l, ""); l.action == withdrawal.Wait {
		return kube.Result{After: orphanGrace}, nil
	}
	return kube.Done, e.withdrawOrDelete(ctx, bundle, l)
}

// orphanSince records whether the Bundle of a deployment is missing, and returns since
// when.
func (e *withdrawals) orphanSince(key kube.Key, orphaned bool) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !orphaned {
		delete(e.orphans, key)
		return time.Time{}
	}
	if _, ok := e.orphans[key]; !ok {
		e.orphans[key] = e.now()
	}
	return e.orphans[key]
}

// enqueueValues enqueues the Secrets of deployments that do not exist, which a manager
// leaves behind when it stops between two writes. It enqueues a recent Secret later:
// its deployment may be about to be written.
func (e *withdrawals) enqueueValues() {
	for _, s := range e.cache.secrets.List("") {
		key := kube.KeyOf(s)
		if s.Labels[fleet.LabelBundleName] == "" {
			continue
		}
		if _, ok := e.table.Deployment(key); !ok {
			e.withdrawalQueue.AddAfter(key, max(time.Millisecond, orphanGrace-e.now().Sub(s.CreationTimestamp.Time)))
		}
	}
	for _, bd := range e.table.All() {
		if _, ok := e.cache.secrets.Get(kube.KeyOf(bd)); !ok && bd.Spec.ValuesHash != "" {
			e.pairs.markStale(kube.KeyOf(bd))
			if key, _, ok := e.table.PairOf(kube.KeyOf(bd)); ok {
				e.bundleQueue.Add(key)
			}
		}
	}
}

// valuesOf returns the Secret with the values of a Bundle; nil if it has none.
func (e *withdrawals) valuesOf(ctx context.Context, b *fleet.Bundle) (*corev1.Secret, error) {
	if b.Spec.ValuesHash == "" {
		return nil, nil
	}
	s, err := e.secrets.Get(ctx, kube.KeyOf(b))
	if kube.IsGone(err) || err == nil && s.Type != fleet.SecretTypeBundleValues {
		return nil, nil
	}
	return s, err
}

// enqueueLeaving enqueues a deployment that is being withdrawn or deleted, or has no
// Bundle.
func (e *withdrawals) enqueueLeaving(bd *fleet.BundleDeployment) {
	key, _, ok := e.table.PairOf(kube.KeyOf(bd))
	if !ok {
		return
	}
	_, alive := e.table.Bundle(key)
	if bd.DeletionTimestamp != nil || !alive || withdrawal.Read(bd).Order != "" {
		e.withdrawalQueue.Add(kube.KeyOf(bd))
	}
}

// forget drops what is remembered of the withdrawals of a Bundle.
func (e *withdrawals) forget(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.paces, key)
	delete(e.waiting, key)
}
