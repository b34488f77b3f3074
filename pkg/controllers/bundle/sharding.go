package bundle

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Several managers may share a cluster, each with a scope of its own. All see
// everything: a manager that decides whether a content or a credential is still needed,
// or what a cluster runs, has to include what others deploy. Each writes only what is
// its own: a deployment belongs to the manager of its Bundle.

// mine reports whether this manager looks after a Bundle. It is true for a Bundle that
// is gone.
func (e *Engine) mine(key kube.Key) bool {
	b, ok := e.table.Bundle(key)
	return !ok || e.cfg.Scope.Owns(b)
}

// mineOf reports whether this manager looks after what belongs to a Bundle that may be
// gone. Then labels name the shard.
func (e *Engine) mineOf(bundle kube.Key, labels map[string]string) bool {
	if b, ok := e.table.Bundle(bundle); ok {
		return e.cfg.Scope.Owns(b)
	}
	return e.cfg.Scope.Takes(bundle.Namespace, labels)
}

// elsewhere reports whether a deployment that is being withdrawn, or the values of a
// deleted one, belong to another manager.
func (e *Engine) elsewhere(key kube.Key) bool {
	if bd, ok := e.table.Deployment(key); ok {
		bundle, _, _ := e.table.PairOf(key)
		return !e.mineOf(bundle, bd.Labels)
	}
	if s, ok := e.cache.secrets.Get(key); ok {
		return !e.mineOf(kube.Key{Namespace: s.Labels[fleet.LabelBundleNamespace], Name: s.Labels[fleet.LabelBundleName]}, s.Labels)
	}
	return false
}

// observeForeign records the state of a Bundle that another manager looks after. It
// waits for writes that were begun while the Bundle was ours, and then forgets them.
func (e *Engine) observeForeign(b *fleet.Bundle) (kube.Result, error) {
	key := kube.KeyOf(b)
	e.resume(key, nil)
	e.forget(key)
	deployments, seen := e.table.Deployments(key)
	p := fleetstate.Plan{
		Generation: b.Generation, Complete: true, Foreign: true, Named: fleetstate.NamedBy(b),
		Waiting: true, Seen: seen, // whatever comes is looked at
		Wants: make(map[kube.Key]fleetstate.Desired, len(deployments)),
	}
	for cluster, bd := range deployments {
		if bd.Annotations[fleet.AnnotationWithdrawn] == "" && bd.DeletionTimestamp == nil {
			p.Order = append(p.Order, cluster)
			p.Wants[cluster] = fleetstate.Desired{ID: bd.Spec.StagedDeploymentID, Paused: bd.Spec.Paused}
		}
	}
	slices.SortFunc(p.Order, fleetstate.CompareKeys)
	e.enqueue(e.table.SetPlan(key, p))
	return kube.Done, nil
}

// handOver enqueues the deployments of a Bundle that has another manager now: those on
// their way out are this manager's from now on, or no longer.
func (e *Engine) handOver(b *fleet.Bundle) {
	deployments, _ := e.table.Deployments(kube.KeyOf(b))
	for _, bd := range deployments {
		e.watchLeaving(bd)
		if _, ok := e.cache.secrets.Get(kube.KeyOf(bd)); !ok && bd.Spec.ValuesHash != "" {
			e.markStale(kube.KeyOf(bd))
		}
	}
}

// reportMine is a reporter's function for objects of one cache, of which it
// writes those that are this manager's.
func reportMine[P kube.Object](e *Engine, cache *kube.Cache[P], write func(context.Context, kube.Key) (int, error)) func(context.Context, kube.Key) (int, error) {
	return func(ctx context.Context, key kube.Key) (int, error) {
		if o, ok := cache.Get(key); ok && !e.cfg.Scope.Owns(o) {
			return 0, nil
		}
		return write(ctx, key)
	}
}

// passedOn reports whether a change has given an object to another manager, or to
// this one.
func passedOn(old, changed metav1.Object) bool {
	was, before := old.GetLabels()[fleet.LabelShardRef]
	is, after := changed.GetLabels()[fleet.LabelShardRef]
	return was != is || before != after
}
