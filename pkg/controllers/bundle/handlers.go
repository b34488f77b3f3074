package bundle

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
)

// Changes of deployments are collected for a while before a Bundle is planned again
// whose deployments wait for each other. The delay grows with the number of
// deployments, so that planning takes a small part of the time.
const (
	gatherDelta   = 20 * time.Millisecond
	gatherPerPair = 50 * time.Microsecond
)

// eventHandlers connects the watches with the table and the queues of all controllers.
type eventHandlers struct {
	*base
	slots          *slots
	deletionBudget *deletionBudget
	deletions      *deletions
	parts
}

// parts are the controllers of this package.
type parts struct {
	pairs       *pairState
	targeting   *targeting
	budgets     *budgets
	guards      *guards
	content     *contentController
	copies      *copyController
	withdrawals *withdrawals
	bundles     *bundleController
	prune       *pruneController
	liveness    *livenessController
	schedules   *scheduleController
	moves       *moveController
	reports     *statusController
}

// addHandlers makes the watches update the table and enqueue what they affect.
func (e *eventHandlers) addHandlers() {
	e.cache.bundles.OnChange(withReturned(e.table, e.onBundle))
	e.cache.deployments.OnChange(withReturned(e.table, e.onDeployment))
	e.cache.clusters.OnChange(withReturned(e.table, e.onCluster))
	e.cache.clusters.OnChange(e.moves.onMoved)
	e.cache.groups.OnChange(withReturned(e.table, e.onGroup))
	e.cache.repos.OnChange(withReturned(e.table, e.onRepo))
	e.cache.helmOps.OnChange(e.onHelmOp)
	e.cache.bundles.OnChange(e.copies.onBundleSecrets)
	e.cache.clusters.OnChange(e.copies.onClusterSecrets)
	e.cache.repos.OnChange(e.copies.onRepoSecrets)
	e.cache.contents.OnChange(e.onContent)
	e.cache.secrets.OnChange(e.onSecret)
	e.cache.configMaps.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		e.copies.onCopy(deployment.KindConfigMap, old, changed)
	})
	e.cache.suspension.OnChange(func(_, _ *corev1.ConfigMap) { e.enqueueBundlesIn("") })
	e.cache.policies.OnChange(e.targeting.onPolicy)
	if e.cache.schedules != nil {
		e.cache.schedules.OnChange(e.schedules.onSchedule)
		e.cache.deployments.OnChange(e.schedules.onOverride)
	}
	e.targeting.addMappingHandlers()
	e.cache.mapped.namespaces.OnChange(e.budgets.onBudgetChange)
	e.cache.mapped.namespaces.OnChange(e.guards.onApproval)
}

// withReturned returns a handler that informs the table of an object which appears
// again, before it calls next.
func withReturned[T any, P interface {
	*T
	kube.Object
}](t *fleetstate.State, next func(old, changed P)) func(old, changed P) {
	return func(old, changed P) {
		if old == nil {
			t.OnReappeared(changed.GetUID())
		}
		next(old, changed)
	}
}

// orOld returns changed, or old if changed is nil: the object that a deletion reports.
func orOld[T any](a, b *T) *T {
	if b != nil {
		return b
	}
	return a
}

// onBundle updates the table after a change of a Bundle, and enqueues what the change
// affects.
func (e *eventHandlers) onBundle(old, changed *fleet.Bundle) {
	if changed == nil {
		key := kube.KeyOf(old)
		siblings := e.table.Siblings(key)
		remain, _ := e.table.Deployments(key)
		e.enqueue(e.table.RemoveBundle(key))
		e.enqueueHelmOp(key, true)
		e.bundles.forget(key)
		e.deletions.forget(old.UID)
		if old.DeletionTimestamp != nil {
			e.deletionQueue.Add(kube.Key{Namespace: key.Namespace})
		}
		for _, bd := range remain {
			e.withdrawals.enqueueLeaving(bd)
		}
		e.enqueueBundles(siblings)
		return
	}
	key := kube.KeyOf(changed)
	e.enqueue(e.table.SetBundle(changed))
	e.prune.onPruneRequest(nilObject(old), changed)
	if old != nil && changedManager(old, changed) {
		e.handOver(changed)
	}
	switch {
	case old == nil:
		e.bundleQueue.Add(key)
	case old.Generation != changed.Generation,
		(old.DeletionTimestamp == nil) != (changed.DeletionTimestamp == nil):
		e.bundleQueue.AddFirst(key) // a user is waiting
	case !maps.Equal(old.Labels, changed.Labels), !slices.Equal(old.Finalizers, changed.Finalizers),
		contentID(old) != contentID(changed), pullResult(old) != pullResult(changed):
		e.bundleQueue.AddFirst(key)
	}
}

// onDeployment updates the table after a change of a BundleDeployment, and enqueues
// what the change affects.
func (e *eventHandlers) onDeployment(old, changed *fleet.BundleDeployment) {
	if changed == nil {
		e.enqueueDelayed(e.table.RemoveDeployment(old))
		e.copies.enqueueCopies(old, nil)
		e.withdrawalQueue.Add(kube.KeyOf(old))
		e.targeting.onNameFreed(old.Name)
		return
	}
	known, _ := e.table.Deployment(kube.KeyOf(changed))
	e.copies.enqueueCopies(old, changed)
	delta := e.table.SetDeployment(changed)
	e.enqueueDelayed(delta)
	if key, _, ok := e.table.PairOf(kube.KeyOf(changed)); ok && old != nil && changedByOther(known, changed) && !e.pairs.isWriting(kube.KeyOf(changed)) {
		if known.Generation != changed.Generation {
			e.pairs.markStale(kube.KeyOf(changed)) // the cache lacks some fields, which may have changed
		}
		e.bundleQueue.Add(key)
	}
	e.withdrawals.enqueueLeaving(changed)
}

// enqueueDelayed enqueues what the change of a deployment affects. It enqueues Bundles
// after a delay, so that one reconciliation handles many changes.
func (e *eventHandlers) enqueueDelayed(n fleetstate.Changes) {
	plan := n.Plan
	n.Plan = nil
	e.enqueue(n)
	for _, key := range plan {
		e.bundleQueue.AddAfter(key, gatherDelta+time.Duration(e.table.Size(key))*gatherPerPair)
	}
}

// changedByOther reports whether another client changed a field that the manager
// writes. The table holds the manager's own writes before the watch reports them.
func changedByOther(known, changed *fleet.BundleDeployment) bool {
	return known != nil && known.UID == changed.UID &&
		(known.Generation != changed.Generation || !maps.Equal(known.Labels, changed.Labels) ||
			!maps.Equal(known.Annotations, changed.Annotations) || len(known.Finalizers) != len(changed.Finalizers))
}

// onCluster updates the table after a change of a Cluster, and enqueues what the change
// affects.
func (e *eventHandlers) onCluster(old, changed *fleet.Cluster) {
	if changed == nil {
		key := kube.KeyOf(old)
		e.enqueue(e.table.RemoveCluster(key))
		e.status[fleetstate.KindCluster].forget(key)
		e.enqueueBundles(e.targeting.bundlesFor(key.Namespace))
		e.enqueueSchedules(key.Namespace)
		return
	}
	delta, change := e.table.SetCluster(changed)
	e.enqueue(delta)
	e.targeting.clusterChanged(changed, change)
}

// onGroup updates the table after a change of a ClusterGroup, and enqueues the Bundles
// of clusters that have joined or left it.
func (e *eventHandlers) onGroup(old, changed *fleet.ClusterGroup) {
	var delta fleetstate.Changes
	var changes []fleetstate.ClusterChange
	if changed == nil {
		delta, changes = e.table.RemoveGroup(kube.KeyOf(old))
		e.status[fleetstate.KindGroup].forget(kube.KeyOf(old))
	} else {
		delta, changes = e.table.SetGroup(changed)
	}
	e.enqueue(delta)
	for _, change := range changes {
		e.targeting.enqueueAffected(orOld(old, changed).Namespace, change)
	}
}

// onRepo updates the table after a change of a GitRepo, and enqueues what the change
// affects.
func (e *eventHandlers) onRepo(old, changed *fleet.GitRepo) {
	if changed == nil {
		e.table.RemoveRepo(kube.KeyOf(old))
		e.status[fleetstate.KindGitRepo].forget(kube.KeyOf(old))
		e.deletionBudget.forgetRepo(kube.KeyOf(old))
		return
	}
	e.enqueue(e.table.SetRepo(changed))
	e.prune.onPruneRequest(nilObject(old), changed)
	if changed.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		e.pruneQueue.AddFirst(kube.KeyOf(changed))
	}
}

// onContent recreates a content that was deleted although it is needed, and plans the
// Bundles that waited for one.
func (e *eventHandlers) onContent(old, changed *metav1.PartialObjectMetadata) {
	c := orOld(old, changed)
	index := indexID(c)
	if old == nil || changed == nil {
		e.enqueueBundles(e.table.BundlesWithContent(index))
	}
	switch {
	case changed == nil && index == c.Name:
		e.enqueueBundles(e.table.NeededBy(c.Name))
		for _, part := range e.content.partsOf(c) {
			e.contentQueue.Add(kube.Key{Name: part.Name})
		}
	case changed != nil && !e.content.contentHeld(c):
		e.contentQueue.Add(kube.Key{Name: c.Name})
	}
}

// onSecret plans the Bundle whose values have arrived, and the Bundle of a deployment
// whose values are gone.
func (e *eventHandlers) onSecret(old, changed *metav1.PartialObjectMetadata) {
	key := kube.KeyOf(orOld(old, changed))
	if isCopy(old) || isCopy(changed) {
		e.copies.onCopy(deployment.KindSecret, old, changed)
		return
	}
	if b, ok := e.table.Bundle(key); ok && b.Spec.ValuesHash != "" && changed != nil {
		e.pairs.dropCompiled(key)
		e.bundleQueue.AddFirst(key)
	}
	if e.content.onCredential(orOld(old, changed), changed == nil) {
		return
	}
	bd, ok := e.table.Deployment(key)
	if !ok && changed != nil && changed.Labels[fleet.LabelBundleName] != "" {
		e.withdrawalQueue.AddAfter(key, orphanGrace) // its deployment may be about to be written, or deleted already
	}
	if changed == nil && (e.pairs.isWriting(key) || ok && bd.Spec.ValuesHash != "") {
		e.pairs.markStale(key)
		if bundle, _, ok := e.table.PairOf(key); ok {
			e.bundleQueue.Add(bundle)
		}
	}
}

// onSynced runs once, when all caches have synced. It settles the table, which a
// manager without Bundles would never do otherwise, and enqueues what a previous
// process has left undone. It returns when ctx ends and no write is in progress.
func (e *eventHandlers) onSynced(ctx context.Context) error {
	e.enqueue(e.table.Settle())
	for _, bd := range e.table.All() {
		e.withdrawals.enqueueLeaving(bd)
	}
	for _, c := range e.cache.contents.List("") {
		if !e.content.contentHeld(c) {
			e.contentQueue.Add(kube.Key{Name: c.Name})
		}
	}
	for _, s := range e.cache.secrets.List("") {
		if isRegistrySecret(s) {
			e.contentQueue.Add(kube.Key{Name: s.Name})
		}
	}
	e.withdrawals.enqueueValues()
	e.copies.enqueueAllCopies()
	<-ctx.Done()
	e.slots.drain()
	return nil
}

// handOver enqueues the deployments of a Bundle whose shard has changed: this manager
// may have become responsible for their withdrawals, or ceased to be.
func (e *eventHandlers) handOver(b *fleet.Bundle) {
	deployments, _ := e.table.Deployments(kube.KeyOf(b))
	for _, bd := range deployments {
		e.withdrawals.enqueueLeaving(bd)
		if _, ok := e.cache.secrets.Get(kube.KeyOf(bd)); !ok && bd.Spec.ValuesHash != "" {
			e.pairs.markStale(kube.KeyOf(bd))
		}
	}
}
