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
	moves       *moveController
	reports     *statusController
}

// handle connects the caches with the table and the loops.
func (e *eventHandlers) handle() {
	e.cache.bundles.OnChange(returning(e.table, e.onBundle))
	e.cache.deployments.OnChange(returning(e.table, e.onDeployment))
	e.cache.clusters.OnChange(returning(e.table, e.onCluster))
	e.cache.clusters.OnChange(e.moves.onMoved)
	e.cache.groups.OnChange(returning(e.table, e.onGroup))
	e.cache.repos.OnChange(returning(e.table, e.onRepo))
	e.cache.bundles.OnChange(e.copies.onBundleSecrets)
	e.cache.clusters.OnChange(e.copies.onClusterSecrets)
	e.cache.repos.OnChange(e.copies.onRepoSecrets)
	e.cache.contents.OnChange(e.onContent)
	e.cache.secrets.OnChange(e.onSecret)
	e.cache.configMaps.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
		e.copies.onCarried(deployment.KindConfigMap, old, changed)
	})
	e.cache.brake.OnChange(func(_, _ *corev1.ConfigMap) { e.planAll("") })
	for _, c := range e.cache.limits {
		c.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
			if (old == nil) != (changed == nil) {
				e.targeting.onLimit(either(old, changed).GetNamespace())
			}
		})
	}
	e.targeting.handleMappings()
	e.cache.mapped.namespaces.OnChange(e.budgets.onBudget)
	e.cache.mapped.namespaces.OnChange(e.guards.onApproval)
}

// returning updates the table with an object that the watch reports as present (again),
// before it calls next.
func returning[T any, P interface {
	*T
	kube.Object
}](t *fleetstate.State, next func(old, changed P)) func(old, changed P) {
	return func(old, changed P) {
		if old == nil {
			t.Returned(changed.GetUID())
		}
		next(old, changed)
	}
}

func either[T any](a, b *T) *T {
	if b != nil {
		return b
	}
	return a
}

func (e *eventHandlers) onBundle(old, changed *fleet.Bundle) {
	if changed == nil {
		key := kube.KeyOf(old)
		siblings := e.table.Siblings(key)
		remain, _ := e.table.Deployments(key)
		e.enqueue(e.table.RemoveBundle(key))
		e.bundles.forget(key)
		e.deletions.forget(old.UID)
		if old.DeletionTimestamp != nil {
			e.deletionQueue.Add(kube.Key{Namespace: key.Namespace})
		}
		for _, bd := range remain {
			e.withdrawals.watchLeaving(bd)
		}
		e.planSome(siblings)
		return
	}
	key := kube.KeyOf(changed)
	e.enqueue(e.table.SetBundle(changed))
	e.prune.asks(nilled(old), changed)
	if old != nil && passedOn(old, changed) {
		e.handOver(changed)
	}
	switch {
	case old == nil:
		e.bundleQueue.Add(key)
	case old.Generation != changed.Generation,
		(old.DeletionTimestamp == nil) != (changed.DeletionTimestamp == nil):
		e.bundleQueue.AddFirst(key) // a person waits for it
	case !maps.Equal(old.Labels, changed.Labels), !slices.Equal(old.Finalizers, changed.Finalizers),
		contentOf(old) != contentOf(changed), pullOf(old) != pullOf(changed):
		e.bundleQueue.AddFirst(key)
	}
}

func (e *eventHandlers) onDeployment(old, changed *fleet.BundleDeployment) {
	if changed == nil {
		e.collect(e.table.RemoveDeployment(old))
		e.copies.recarry(old, nil)
		e.withdrawalQueue.Add(kube.KeyOf(old))
		e.targeting.freed(old.Name)
		return
	}
	known, _ := e.table.Deployment(kube.KeyOf(changed))
	e.copies.recarry(old, changed)
	delta := e.table.SetDeployment(changed)
	e.collect(delta)
	if key, _, ok := e.table.PairOf(kube.KeyOf(changed)); ok && old != nil && edited(known, changed) && !e.pairs.isWriting(kube.KeyOf(changed)) {
		if known.Generation != changed.Generation {
			e.pairs.markStale(kube.KeyOf(changed)) // the cache lacks some fields, which may have changed
		}
		e.bundleQueue.Add(key)
	}
	e.withdrawals.watchLeaving(changed)
}

// collect enqueues what the changes of a deployment affect. It delays planning the
// Bundle, so that more changes can arrive.
func (e *eventHandlers) collect(n fleetstate.Changes) {
	plan := n.Plan
	n.Plan = nil
	e.enqueue(n)
	for _, key := range plan {
		e.bundleQueue.AddAfter(key, gatherDelta+time.Duration(e.table.Size(key))*gatherPerPair)
	}
}

// edited reports whether another writer changed what the manager writes. The table has
// the manager's own writes before the watch reports them.
func edited(known, changed *fleet.BundleDeployment) bool {
	return known != nil && known.UID == changed.UID &&
		(known.Generation != changed.Generation || !maps.Equal(known.Labels, changed.Labels) ||
			!maps.Equal(known.Annotations, changed.Annotations) || len(known.Finalizers) != len(changed.Finalizers))
}

func (e *eventHandlers) onCluster(old, changed *fleet.Cluster) {
	if changed == nil {
		key := kube.KeyOf(old)
		e.enqueue(e.table.RemoveCluster(key))
		e.status[fleetstate.KindCluster].forget(key)
		e.planSome(e.targeting.around(key.Namespace))
		return
	}
	delta, change := e.table.SetCluster(changed)
	e.enqueue(delta)
	e.targeting.clusterChanged(changed, change)
}

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
		e.targeting.retarget(either(old, changed).Namespace, change)
	}
}

func (e *eventHandlers) onRepo(old, changed *fleet.GitRepo) {
	if changed == nil {
		e.table.RemoveRepo(kube.KeyOf(old))
		e.status[fleetstate.KindGitRepo].forget(kube.KeyOf(old))
		e.deletionBudget.forgetRepo(kube.KeyOf(old))
		return
	}
	e.enqueue(e.table.SetRepo(changed))
	e.prune.asks(nilled(old), changed)
	if changed.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		e.pruneQueue.AddFirst(kube.KeyOf(changed))
	}
}

// onContent recreates a content that was deleted although it is needed, and plans the
// Bundles that waited for one.
func (e *eventHandlers) onContent(old, changed *metav1.PartialObjectMetadata) {
	c := either(old, changed)
	index := indexOf(c)
	if old == nil || changed == nil {
		e.planSome(e.table.Naming(index))
	}
	switch {
	case changed == nil && index == c.Name:
		e.planSome(e.table.NeededBy(c.Name))
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
	key := kube.KeyOf(either(old, changed))
	if isCarried(old) || isCarried(changed) {
		e.copies.onCarried(deployment.KindSecret, old, changed)
		return
	}
	if b, ok := e.table.Bundle(key); ok && b.Spec.ValuesHash != "" && changed != nil {
		e.pairs.dropCompiled(key)
		e.bundleQueue.AddFirst(key)
	}
	if e.content.onCredential(either(old, changed), changed == nil) {
		return
	}
	bd, ok := e.table.Deployment(key)
	if !ok && changed != nil && changed.Labels[fleet.LabelBundleName] != "" {
		e.withdrawalQueue.AddAfter(key, orphanGrace) // its deployment may be on its way, or gone already
	}
	if changed == nil && (e.pairs.isWriting(key) || ok && bd.Spec.ValuesHash != "") {
		e.pairs.markStale(key)
		if bundle, _, ok := e.table.PairOf(key); ok {
			e.bundleQueue.Add(bundle)
		}
	}
}

// start runs once, when all caches are filled: without any Bundle no other loop would
// notice that there is nothing to wait for. It also enqueues what was left behind while
// no manager ran.
func (e *eventHandlers) start(ctx context.Context) error {
	e.enqueue(e.table.Settle())
	for _, bd := range e.table.All() {
		e.withdrawals.watchLeaving(bd)
	}
	for _, c := range e.cache.contents.List("") {
		if !e.content.contentHeld(c) {
			e.contentQueue.Add(kube.Key{Name: c.Name})
		}
	}
	for _, s := range e.cache.secrets.List("") {
		if ofRegistry(s) {
			e.contentQueue.Add(kube.Key{Name: s.Name})
		}
	}
	e.withdrawals.sweepSecrets()
	e.copies.sweepCarried()
	<-ctx.Done()
	e.slots.drain()
	return nil
}

// handOver enqueues the deployments of a Bundle that has another manager now: those on
// their way out are this manager's from now on, or no longer.
func (e *eventHandlers) handOver(b *fleet.Bundle) {
	deployments, _ := e.table.Deployments(kube.KeyOf(b))
	for _, bd := range deployments {
		e.withdrawals.watchLeaving(bd)
		if _, ok := e.cache.secrets.Get(kube.KeyOf(bd)); !ok && bd.Spec.ValuesHash != "" {
			e.pairs.markStale(kube.KeyOf(bd))
		}
	}
}
