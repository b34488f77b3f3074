package kube_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// A finalizer is added and removed once, beside those of others, and not in an object that
// was changed since it was read.
func TestFinalizers(t *testing.T) {
	s := kubetest.New(t)
	store := kube.StoreOf[*corev1.ConfigMap](s.Connect("test"))
	first := mapOf(nil)
	first.Finalizers = []string{"example/other"}
	first, err := store.Create(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	added, err := store.AddFinalizer(t.Context(), first, "example/mine")
	if err != nil || !slices.Equal(added.Finalizers, []string{"example/other", "example/mine"}) || len(first.Finalizers) != 1 {
		t.Fatalf("got %v of %v, %v", added.Finalizers, first.Finalizers, err)
	}
	if _, err := store.AddFinalizer(t.Context(), first, "example/mine"); !kube.IsConflict(err) {
		t.Errorf("want a conflict for an old object, got %v", err)
	}
	before := len(s.Writes())
	if again, err := store.AddFinalizer(t.Context(), added, "example/mine"); err != nil || again != added {
		t.Errorf("got %p of %p, %v", again, added, err)
	}
	if same, err := store.RemoveFinalizer(t.Context(), added, "example/none"); err != nil || same != added {
		t.Errorf("got %p of %p, %v", same, added, err)
	}
	if n := len(s.Writes()) - before; n > 0 {
		t.Errorf("%d writes without a difference", n)
	}
	removed, err := store.RemoveFinalizer(t.Context(), added, "example/mine")
	if err != nil || !slices.Equal(removed.Finalizers, []string{"example/other"}) {
		t.Errorf("got %v, %v", removed.Finalizers, err)
	}
}
