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

// reportOwned returns a write function of a reporter that ignores the objects of other
// managers.
func reportOwned[P kube.Object](b *base, cache *kube.Cache[P], write func(context.Context, kube.Key) (int, error)) func(context.Context, kube.Key) (int, error) {
	return func(ctx context.Context, key kube.Key) (int, error) {
		if o, ok := cache.Get(key); ok && !b.cfg.Scope.Owns(o) {
			return 0, nil
		}
		return write(ctx, key)
	}
}

// changedManager reports whether the shard or workspace of an object has changed, so
// that another manager may be responsible for it.
func changedManager(old, changed metav1.Object) bool {
	was, before := old.GetLabels()[fleet.LabelShardRef]
	is, after := changed.GetLabels()[fleet.LabelShardRef]
	return was != is || before != after
}
