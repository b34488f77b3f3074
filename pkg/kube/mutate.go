package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// attempts limits how often a change is sent while other writers are faster. There is no
// delay between them: each begins with the object as it is then.
var attempts = wait.Backoff{Steps: 6}

// Mutate changes an object outside of its status. It calls change with a copy of seen,
// and sends the difference. After a conflict it reads the object and calls change
// again. An error of change ends it. If the object is missing, or was replaced by
// another one of the same name, it returns ErrGone.
func (s *Store[P]) Mutate(ctx context.Context, seen P, change func(P) error) (P, error) {
	return s.mutate(ctx, seen, change, s.Patch)
}

// MutateStatus is Mutate for the status only.
func (s *Store[P]) MutateStatus(ctx context.Context, seen P, change func(P) error) (P, error) {
	return s.mutate(ctx, seen, change, s.PatchStatus)
}

// mutate implements Mutate and MutateStatus, which differ in patch.
func (s *Store[P]) mutate(ctx context.Context, seen P, change func(P) error, patch func(ctx context.Context, old, changed P) (P, error)) (out P, err error) {
	old, stale := seen, false
	err = retry.RetryOnConflict(attempts, func() error {
		if stale {
			if old, err = s.getSame(ctx, KeyOf(seen), seen.GetUID()); err != nil {
				return err
			}
		}
		stale = true
		changed := old.DeepCopyObject().(P)
		if err = change(changed); err != nil {
			return err
		}
		if out, err = patch(ctx, old, changed); err == nil && any(out) == any(old) {
			out = changed // nothing was sent; seen does not belong to the caller
		}
		return err
	})
	return out, err
}

// getSame reads an object and returns ErrGone if its UID differs.
func (s *Store[P]) getSame(ctx context.Context, key Key, uid types.UID) (P, error) {
	got, err := s.Get(ctx, key)
	if err == nil && got.GetUID() != uid {
		var none P
		return none, wrap("get", s.kind.gvk.Kind, key, fmt.Errorf("another object has its name: %w", ErrGone))
	}
	return got, err
}

// Ensure creates an object, or changes the existing one as Mutate does. It repeats that
// if the object is created or deleted in between.
func (s *Store[P]) Ensure(ctx context.Context, want P, change func(P) error) (out P, err error) {
	err = retry.OnError(attempts, IsGone, func() error {
		out, err = s.Create(ctx, want)
		if !IsExists(err) {
			return err
		}
		have, err := s.Get(ctx, KeyOf(want))
		if err != nil {
			return err
		}
		out, err = s.Mutate(ctx, have, change)
		return err
	})
	return out, err
}
