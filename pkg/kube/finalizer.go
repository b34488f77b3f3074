package kube

import (
	"context"
	"slices"
)

// AddFinalizer adds a finalizer to an object, with the object's resourceVersion as
// precondition. It sends nothing, and returns obj, if the object has it.
func (s *Store[P]) AddFinalizer(ctx context.Context, obj P, finalizer string) (P, error) {
	if slices.Contains(obj.GetFinalizers(), finalizer) {
		return obj, nil
	}
	return s.setFinalizers(ctx, obj, append(slices.Clone(obj.GetFinalizers()), finalizer))
}

// RemoveFinalizer removes a finalizer from an object, with the object's resourceVersion as
// precondition. It sends nothing, and returns obj, if the object lacks it.
func (s *Store[P]) RemoveFinalizer(ctx context.Context, obj P, finalizer string) (P, error) {
	return s.setFinalizers(ctx, obj, slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
}

func (s *Store[P]) setFinalizers(ctx context.Context, obj P, list []string) (P, error) {
	changed := obj.DeepCopyObject().(P)
	changed.SetFinalizers(list)
	return s.Patch(ctx, obj, changed)
}
