package bundle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Changes of deployments are collected for a while before a Bundle is planned again
// whose deployments wait for each other. The delay grows with the number of
// deployments, so that planning takes a small part of the time.
const (
	gatherDelta   = 20 * time.Millisecond
	gatherPerPair = 50 * time.Microsecond
)

// handle connects the caches with the table and the loops.
func (e *Engine) handle() {
	e.cache.bundles.OnChange(returning(e.table, e.onBundle))
	e.cache.deployments.OnChange(returning(e.table, e.onDeployment))
	e.cache.clusters.OnChange(returning(e.table, e.onCluster))
	e.cache.clusters.OnChange(e.onMoved)
	e.cache.groups.OnChange(returning(e.table, e.onGroup))
	e.cache.repos.OnChange(returning(e.table, e.onRepo))
	e.cache.bundles.OnChange(e.onBundleSecrets)
	e.cache.clusters.OnChange(e.onClusterSecrets)
	e.cache.repos.OnChange(e.onRepoSecrets)
	e.cache.contents.OnChange(e.onContent)
	e.cache.secrets.OnChange(e.onSecret)
	e.cache.configMaps.OnChange(func(old, changed *metav1.PartialObjectMetadata) { e.onCarried(deployment.KindConfigMap, old, changed) })
	e.cache.brake.OnChange(func(_, _ *corev1.ConfigMap) { e.planAll("") })
	for _, c := range e.cache.limits {
		c.OnChange(func(old, changed *metav1.PartialObjectMetadata) {
			if (old == nil) != (changed == nil) {
				e.onLimit(either(old, changed).GetNamespace())
			}
		})
	}
	e.handleMappings()
	e.cache.mapped.namespaces.OnChange(e.onBudget)
	e.cache.mapped.namespaces.OnChange(e.onApproval)
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

func (e *Engine) planAll(namespace string) {
	for _, key := range e.table.Bundles(namespace) {
		e.bundleController.Add(key)
	}
}

func (e *Engine) onBundle(old, changed *fleet.Bundle) {
	if changed == nil {
		key := kube.KeyOf(old)
		siblings := e.table.Siblings(key)
		remain, _ := e.table.Deployments(key)
		e.enqueue(e.table.RemoveBundle(key))
		e.forget(key)
		e.deletions.forget(old.UID)
		if old.DeletionTimestamp != nil {
			e.deleter.Add(kube.Key{Namespace: key.Namespace})
		}
		for _, bd := range remain {
			e.watchLeaving(bd)
		}
		e.planSome(siblings)
		return
	}
	key := kube.KeyOf(changed)
	e.enqueue(e.table.SetBundle(changed))
	e.asks(nilled(old), changed)
	if old != nil && passedOn(old, changed) {
		e.handOver(changed)
	}
	switch {
	case old == nil:
		e.bundleController.Add(key)
	case old.Generation != changed.Generation,
		(old.DeletionTimestamp == nil) != (changed.DeletionTimestamp == nil):
		e.bundleController.AddFirst(key) // a person waits for it
	case !maps.Equal(old.Labels, changed.Labels), !slices.Equal(old.Finalizers, changed.Finalizers),
		contentOf(old) != contentOf(changed), pullOf(old) != pullOf(changed):
		e.bundleController.AddFirst(key)
	}
}

// forget drops what is kept about a Bundle that is gone.
func (e *Engine) forget(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kits, key)
	delete(e.memos, key)
	delete(e.paces, key)
	delete(e.waiting, key)
	e.deletionBudget.forget(key)
	e.sources.forget(key)
}

func (e *Engine) planSome(keys []kube.Key) {
	for _, key := range keys {
		e.bundleController.Add(key)
	}
}

func (e *Engine) onDeployment(old, changed *fleet.BundleDeployment) {
	if changed == nil {
		e.collect(e.table.RemoveDeployment(old))
		e.recarry(old, nil)
		e.deletionController.Add(kube.KeyOf(old))
		e.freed(old.Name)
		return
	}
	known, _ := e.table.Deployment(kube.KeyOf(changed))
	e.recarry(old, changed)
	delta := e.table.SetDeployment(changed)
	e.collect(delta)
	if key, _, ok := e.table.PairOf(kube.KeyOf(changed)); ok && old != nil && edited(known, changed) && !e.isWriting(kube.KeyOf(changed)) {
		if known.Generation != changed.Generation {
			e.markStale(kube.KeyOf(changed)) // the cache lacks some fields, which may have changed
		}
		e.bundleController.Add(key)
	}
	e.watchLeaving(changed)
}

// collect enqueues what the changes of a deployment affect. It delays planning the
// Bundle, so that more changes can arrive.
func (e *Engine) collect(n fleetstate.Changes) {
	plan := n.Plan
	n.Plan = nil
	e.enqueue(n)
	for _, key := range plan {
		e.bundleController.AddAfter(key, gatherDelta+time.Duration(e.table.Size(key))*gatherPerPair)
	}
}

// edited reports whether another writer changed what the engine writes. The table has
// the engine's own writes before the watch reports them.
func edited(known, changed *fleet.BundleDeployment) bool {
	return known != nil && known.UID == changed.UID &&
		(known.Generation != changed.Generation || !maps.Equal(known.Labels, changed.Labels) ||
			!maps.Equal(known.Annotations, changed.Annotations) || len(known.Finalizers) != len(changed.Finalizers))
}

// watchLeaving enqueues a deployment that is being withdrawn, if its loop may have
// something to do.
func (e *Engine) watchLeaving(bd *fleet.BundleDeployment) {
	key, _, ok := e.table.PairOf(kube.KeyOf(bd))
	if !ok {
		return
	}
	_, alive := e.table.Bundle(key)
	if bd.DeletionTimestamp != nil || !alive || withdrawal.Read(bd).Order != "" {
		e.deletionController.Add(kube.KeyOf(bd))
	}
}

func (e *Engine) onCluster(old, changed *fleet.Cluster) {
	if changed == nil {
		key := kube.KeyOf(old)
		e.enqueue(e.table.RemoveCluster(key))
		e.status[fleetstate.KindCluster].forget(key)
		e.planSome(e.around(key.Namespace))
		return
	}
	delta, change := e.table.SetCluster(changed)
	e.enqueue(delta)
	e.clusterChanged(changed, change)
}

// clusterChanged enqueues the Bundles that a change of a cluster affects.
func (e *Engine) clusterChanged(c *fleet.Cluster, change fleetstate.ClusterChange) {
	key := kube.KeyOf(c)
	if change.Is == nil {
		return // nothing new
	}
	if change.Life {
		e.revived(c, change.Away)
	}
	if change.Life || change.Was == nil {
		e.heartbeatController.Add(key)
	}
	if change.Targeting {
		e.retarget(key.Namespace, change)
		if change.Was == nil || change.Was.Protocol != change.Is.Protocol || change.Was.Unseen != change.Is.Unseen {
			e.redisplay(key)
		}
	}
}

func (e *Engine) onGroup(old, changed *fleet.ClusterGroup) {
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
		e.retarget(either(old, changed).Namespace, change)
	}
}

// retarget plans the Bundles for which a cluster of a namespace has become
// another.
func (e *Engine) retarget(namespace string, change fleetstate.ClusterChange) {
	for _, key := range e.around(namespace) {
		if e.concerns(key, change) {
			e.bundleController.Add(key)
		}
	}
}

// concerns reports whether a Bundle decides otherwise for a cluster than before.
// A Bundle that was not planned yet will be planned anyway.
func (e *Engine) concerns(key kube.Key, change fleetstate.ClusterChange) bool {
	e.mu.Lock()
	entry := e.kits[key]
	e.mu.Unlock()
	was, is := change.Was, change.Is
	if entry != nil && was != nil && (was.Protocol != is.Protocol || was.Unseen != is.Unseen) && fleetstate.NamedBy(entry.compiled.Bundle()) != "" {
		return true // it may be able to read now what it was not, and the other way round
	}
	if entry == nil || was == nil || was.Deleting != is.Deleting || was.Emptied != is.Emptied || was.Other != is.Other ||
		was.NoPlace != is.NoPlace || was.Place.Namespace != is.Place.Namespace {
		return true
	}
	before, after := entry.compiled.Pick(&was.Place.Cluster), entry.compiled.Pick(&is.Place.Cluster)
	if !before.Same(after) {
		return true
	}
	if !after.Deploy {
		// A message may say so.
		return e.table.Nowhere(key) || e.table.Holds(key, is.Key) &&
			entry.compiled.Match(&was.Place.Cluster).Reason != entry.compiled.Match(&is.Place.Cluster).Reason
	}
	if was.Place.Paused != is.Place.Paused ||
		rollout.Moves(entry.compiled.Bundle().Spec.RolloutStrategy, &was.Place.Cluster, &is.Place.Cluster) {
		return true
	}
	x, errX := entry.compiled.Inputs(before, was.Place)
	y, errY := entry.compiled.Inputs(after, is.Place)
	return errX != nil || errY != nil || x != y
}

func (e *Engine) onRepo(old, changed *fleet.GitRepo) {
	if changed == nil {
		e.table.RemoveRepo(kube.KeyOf(old))
		e.status[fleetstate.KindGitRepo].forget(kube.KeyOf(old))
		e.deletionBudget.forgetRepo(kube.KeyOf(old))
		return
	}
	e.enqueue(e.table.SetRepo(changed))
	e.asks(nilled(old), changed)
	if changed.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		e.pruner.AddFirst(kube.KeyOf(changed))
	}
}

// onContent recreates a content that was deleted although it is needed, and plans the
// Bundles that waited for one.
func (e *Engine) onContent(old, changed *metav1.PartialObjectMetadata) {
	c := either(old, changed)
	index := indexOf(c)
	if old == nil || changed == nil {
		e.planSome(e.table.Naming(index))
	}
	switch {
	case changed == nil && index == c.Name:
		e.planSome(e.table.NeededBy(c.Name))
		for _, part := range e.partsOf(c) {
			e.sweep.Add(kube.Key{Name: part.Name})
		}
	case changed != nil && !e.contentHeld(c):
		e.sweep.Add(kube.Key{Name: c.Name})
	}
}

// onSecret plans the Bundle whose values have arrived, and the Bundle of a deployment
// whose values are gone.
func (e *Engine) onSecret(old, changed *metav1.PartialObjectMetadata) {
	key := kube.KeyOf(either(old, changed))
	if isCarried(old) || isCarried(changed) {
		e.onCarried(deployment.KindSecret, old, changed)
		return
	}
	if b, ok := e.table.Bundle(key); ok && b.Spec.ValuesHash != "" && changed != nil {
		e.dropCompiled(key)
		e.bundleController.AddFirst(key)
	}
	if e.onCredential(either(old, changed), changed == nil) {
		return
	}
	bd, ok := e.table.Deployment(key)
	if !ok && changed != nil && changed.Labels[fleet.LabelBundleName] != "" {
		e.deletionController.AddAfter(key, orphanGrace) // its deployment may be on its way, or gone already
	}
	if changed == nil && (e.isWriting(key) || ok && bd.Spec.ValuesHash != "") {
		e.markStale(key)
		if bundle, _, ok := e.table.PairOf(key); ok {
			e.bundleController.Add(bundle)
		}
	}
}
