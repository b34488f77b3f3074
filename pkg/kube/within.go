package kube

import "context"

// Within returns a reconcile function that skips keys in namespaces of other managers.
//
// A manager that works in some namespaces still watches all: what a narrower watch
// lacks would look deleted, and be cleaned up.
func Within(holds func(namespace string) bool, reconcile func(context.Context, Key) (Result, error)) func(context.Context, Key) (Result, error) {
	return func(ctx context.Context, key Key) (Result, error) {
		if !holds(key.Namespace) {
			return Done, nil
		}
		return reconcile(ctx, key)
	}
}
