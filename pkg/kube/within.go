package kube

import "context"

// Within returns reconcile for those keys whose namespace is one of the manager's; the
// others belong to other managers and are skipped.
//
// A manager that works in some namespaces only still sees all: what is absent from a
// narrower view would look deleted, and be cleaned up.
func Within(holds func(namespace string) bool, reconcile func(context.Context, Key) (Result, error)) func(context.Context, Key) (Result, error) {
	return func(ctx context.Context, key Key) (Result, error) {
		if !holds(key.Namespace) {
			return Done, nil
		}
		return reconcile(ctx, key)
	}
}
