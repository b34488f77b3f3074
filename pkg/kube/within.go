package kube

import "context"

// Within is reconcile for those keys whose namespace is one of the manager's;
// the others are somebody else's and need no look.
//
// A manager that works in some namespaces only still sees all: what is absent
// from a narrower view would look as if it were gone, and be cleaned up after.
func Within(holds func(namespace string) bool, reconcile func(context.Context, Key) (Result, error)) func(context.Context, Key) (Result, error) {
	return func(ctx context.Context, key Key) (Result, error) {
		if !holds(key.Namespace) {
			return Done, nil
		}
		return reconcile(ctx, key)
	}
}
