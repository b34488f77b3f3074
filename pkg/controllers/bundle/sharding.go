package bundle

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Several managers may share a cluster, each with a scope of its own. All see
// everything: a manager that decides whether a content or a credential is still needed,
// or what a cluster runs, has to include what others deploy. Each writes only what is
// its own: a deployment belongs to the manager of its Bundle.

// reportMine is a reporter's function for objects of one cache, of which it
// writes those that are this manager's.
func reportMine[P kube.Object](b *base, cache *kube.Cache[P], write func(context.Context, kube.Key) (int, error)) func(context.Context, kube.Key) (int, error) {
	return func(ctx context.Context, key kube.Key) (int, error) {
		if o, ok := cache.Get(key); ok && !b.cfg.Scope.Owns(o) {
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
