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

// withdrawals orders the withdrawal of deployments that are not wanted any more, and deletes
// those that agents have uninstalled.
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
	waiting map[kube.Key]map[kube.Key]fleetstate.Holds // Bundles whose withdrawals wait for others, and those of the others
}

// withdraw orders the withdrawal of deployments that are no longer desired, within the
// deletion budget, at a pace that leaves time to undo a mistake; those that a user has
// approved at once. Those with an order already belong to the deletion controller.
func (e *withdrawals) withdraw(ctx context.Context, s *snapshot, d *decision) (kube.Result, error) {
	if len(d.leaving) > 0 {
		e.wait(s.key)
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
	e.judged(s.key, blocked || alsoBlocked)
	paced := 0
	if len(ready) > 0 {
		allowed, after := e.take(s.key, len(ready), len(s.deployments))
		now, again, paced = append(now, ready[:allowed]...), sooner(again, after), allowed
	}
	for i, l := range now {
		if err := e.order(ctx, s.key, l); err != nil {
			e.giveBack(s.key, min(paced, len(now)-i)) // they come last
			return kube.Done, err
		}
	}
	return kube.Result{After: again}, nil
}

// ready are those of the deployments on their way out that nothing has to come
// before, and whether there are others.
func (e *withdrawals) ready(s *snapshot, list []*staleDeployment) (ready []*staleDeployment, blocked bool) {
	for _, l := range list {
		if l.action, _ = e.judge(s.key, l, s.hold); l.action == withdrawal.Wait {
			blocked = true
			continue
		}
		ready = append(ready, l)
	}
	return ready, blocked
}

// sooner returns the earlier of two times to look again; 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// judge decides what is next for a deployment that is not desired.
func (e *withdrawals) judge(bundle kube.Key, l *staleDeployment, hold string) (withdrawal.Action, string) {
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

// take asks for withdrawals at the Bundle's pace.
func (e *withdrawals) take(key kube.Key, want, total int) (int, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, next, after := e.paces[key].Take(want, total, e.now())
	e.paces[key] = next
	return n, after
}

// giveBack returns what was taken and not used.
func (e *withdrawals) giveBack(key kube.Key, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paces[key] = e.paces[key].Back(n)
}

// wait notes that withdrawals of a Bundle may wait for others of its repository: call it
// before they are judged, so that no change of the others in between is lost.
func (e *withdrawals) wait(key kube.Key) {
	holds := e.table.HoldsBefore(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[key] = holds
}

// judged notes whether withdrawals of a Bundle do wait.
func (e *withdrawals) judged(key kube.Key, waits bool) {
	if waits {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, key)
}

// release enqueues the Bundles of the same repository whose withdrawals wait, and that have
// judged this one as it was before: two that wait would enqueue each other without end
// otherwise.
func (e *withdrawals) release(key kube.Key) {
	now := e.table.HoldsOf(key)
	for _, sibling := range e.table.Siblings(key) {
		e.mu.Lock()
		holds, waits := e.waiting[sibling]
		e.mu.Unlock()
		if waits && holds[key] != now {
			e.bundleQueue.Add(sibling)
		}
	}
}

// order carries out what judge decided: it marks a deployment, or deletes it.
func (e *withdrawals) order(ctx context.Context, bundle kube.Key, l *staleDeployment) error {
	log := e.logFor(bundle).WithField("cluster", l.cluster.String()).WithField("reason", l.reason)
	if l.action == withdrawal.Delete {
		if err := e.erase(ctx, l.bd); err != nil {
			return err
		}
		log.Info("deployment deleted")
		return nil
	}
	changed := l.bd.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[fleet.AnnotationWithdrawn] = rand.Text() // the id of the order: no two are the same
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

// erase deletes a deployment exactly as it was decided on, and then its values.
func (e *withdrawals) erase(ctx context.Context, bd *fleet.BundleDeployment) error {
	key := kube.KeyOf(bd)
	err := e.deployments.Delete(ctx, key, kube.Precondition{UID: bd.UID, ResourceVersion: bd.ResourceVersion})
	if err != nil {
		return err
	}
	if len(bd.Finalizers) > 0 {
		return nil // the event of its end comes later
	}
	return e.eraseSecret(ctx, key, bd.UID)
}

// eraseSecret deletes the values of a deployment that is gone. erased is the
// UID of the one that was deleted just now; the table may not know yet.
func (e *withdrawals) eraseSecret(ctx context.Context, key kube.Key, erased types.UID) error {
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
		return nil // it was written since, for a new deployment
	}
	return err
}

// reconcileLeaving handles one deployment that is being withdrawn: it strips the
// reference's finalizer, deletes what an agent has uninstalled, and orders the
// withdrawal of a deployment without Bundle.
func (e *withdrawals) reconcileLeaving(ctx context.Context, key kube.Key) (kube.Result, error) {
	if e.elsewhere(key) {
		return kube.Done, nil
	}
	bd, ok := e.table.Deployment(key)
	if !ok {
		e.setOrphan(key, false)
		return kube.Done, e.eraseSecret(ctx, key, "")
	}
	if bd.DeletionTimestamp != nil {
		return kube.Done, e.unlock(ctx, bd)
	}
	bundle, cluster, _ := e.table.PairOf(key)
	l := &staleDeployment{cluster: cluster, bd: bd, reason: "uninstalled as ordered"}
	if withdrawal.Read(bd).Order == "" {
		return e.orphan(ctx, bundle, l)
	}
	if action, _ := e.judge(bundle, l, ""); action != withdrawal.Delete {
		return kube.Done, nil
	}
	if err := e.erase(ctx, bd); err != nil {
		return kube.Done, err
	}
	e.logFor(bundle).WithField("cluster", cluster.String()).Info("deployment gone")
	return kube.Done, nil
}

// unlock strips the reference's finalizer from a deployment that is being
// deleted.
func (e *withdrawals) unlock(ctx context.Context, bd *fleet.BundleDeployment) error {
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

// orphan orders the withdrawal of a deployment whose Bundle has been gone for 10
// minutes without our finalizer having run. That the cache lacks the Bundle is not
// enough.
func (e *withdrawals) orphan(ctx context.Context, bundle kube.Key, l *staleDeployment) (kube.Result, error) {
	key := kube.KeyOf(l.bd)
	_, alive := e.table.Bundle(bundle)
	_, known := e.table.AgentOf(l.cluster)
	if alive || !known {
		e.setOrphan(key, false)
		return kube.Done, nil
	}
	if l.bd.Annotations[fleet.AnnotationKept] != "" { // a person has let its Bundle go
		return kube.Done, nil
	}
	since := e.setOrphan(key, true)
	if left := orphanGrace - e.now().Sub(since); left > 0 {
		return kube.Result{After: left}, nil
	}
	if _, err := e.bundles.Get(ctx, bundle); !kube.IsGone(err) {
		return kube.Result{After: orphanGrace}, err
	}
	if why, _ := e.held(bundle.Namespace); why != "" {
		return kube.Result{After: orphanGrace}, nil
	}
	why, err := e.budgets.bundleLost(ctx, bundle, l.bd.CreationTimestamp.Time)
	if err != nil || why != "" {
		return kube.Result{After: orphanGrace}, err
	}
	l.reason = "its Bundle is gone"
	if l.action, _ = e.judge(bundle, l, ""); l.action == withdrawal.Wait {
		return kube.Result{After: orphanGrace}, nil
	}
	return kube.Done, e.order(ctx, bundle, l)
}

// setOrphan notes whether a deployment is without Bundle, and returns since
// when it is.
func (e *withdrawals) setOrphan(key kube.Key, yes bool) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !yes {
		delete(e.orphans, key)
		return time.Time{}
	}
	if _, ok := e.orphans[key]; !ok {
		e.orphans[key] = e.now()
	}
	return e.orphans[key]
}

// sweepSecrets enqueues the values of deployments that are gone, left behind when a
// manager was stopped between two writes. Recent ones may belong to a deployment that
// is about to be written.
func (e *withdrawals) sweepSecrets() {
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

// valuesOf is the Secret with the values of a Bundle.
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

// watchLeaving enqueues a deployment that is being withdrawn, if its loop may have
// something to do.
func (e *withdrawals) watchLeaving(bd *fleet.BundleDeployment) {
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
