package kube_test

import (
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// mapOf is a ConfigMap of the default namespace.
func mapOf(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}, Data: data}
}

// set returns a change that sets one key.
func set(key, value string) func(*corev1.ConfigMap) error {
	return func(m *corev1.ConfigMap) error {
		m.Data[key] = value
		return nil
	}
}

// Mutate changes the object that is there, also if another writer was faster, and never
// another object of its name.
func TestMutate(t *testing.T) {
	s := kubetest.New(t)
	store := kube.StoreOf[*corev1.ConfigMap](s.Connect("test"))
	create := func(data map[string]string) *corev1.ConfigMap {
		t.Helper()
		m, err := store.Create(t.Context(), mapOf(data))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	seen := create(map[string]string{"a": "1"})
	if _, err := store.Mutate(t.Context(), seen, set("b", "2")); err != nil {
		t.Fatal(err)
	}
	got, err := store.Mutate(t.Context(), seen, set("c", "3")) // seen is old by now
	if want := map[string]string{"a": "1", "b": "2", "c": "3"}; err != nil || !maps.Equal(got.Data, want) {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
	if len(seen.Data) != 1 {
		t.Errorf("the caller's object was changed: %v", seen.Data)
	}
	if got, err := store.Mutate(t.Context(), seen, func(*corev1.ConfigMap) error { return nil }); err != nil || got == seen {
		t.Errorf("without a difference: want a copy, got %p of %p, %v", got, seen, err)
	}
	refusal := errors.New("not ours")
	if _, err := store.Mutate(t.Context(), seen, func(*corev1.ConfigMap) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("want the error of change, got %v", err)
	}
	always := s.Conflict(100, kubetest.Match{Verb: "patch", Name: "x"})
	if _, err := store.Mutate(t.Context(), seen, set("d", "4")); !kube.IsConflict(err) {
		t.Errorf("want a conflict after some attempts, got %v", err)
	}
	always.Lift()
	if err := store.Delete(t.Context(), kube.KeyOf(seen), kube.Precondition{}); err != nil {
		t.Fatal(err)
	}
	create(map[string]string{"other": ""})
	if _, err := store.Mutate(t.Context(), seen, set("e", "5")); !kube.IsGone(err) {
		t.Errorf("want ErrGone for another object of the name, got %v", err)
	}
}

// Ensure creates what is missing, and changes what is there.
func TestEnsure(t *testing.T) {
	s := kubetest.New(t)
	store := kube.StoreOf[*corev1.ConfigMap](s.Connect("test"))
	for i, want := range []map[string]string{{"a": "1"}, {"a": "1", "b": "2"}} {
		got, err := store.Ensure(t.Context(), mapOf(map[string]string{"a": "1"}), set("b", "2"))
		if err != nil || !maps.Equal(got.Data, want) {
			t.Errorf("call %d: want %v, got %v, %v", i+1, want, got, err)
		}
	}
	conflict := s.Conflict(1, kubetest.Match{Verb: "patch", Name: "x"})
	got, err := store.Ensure(t.Context(), mapOf(nil), set("c", "3"))
	if err != nil || got.Data["c"] != "3" || conflict.Met() != 1 {
		t.Errorf("after a conflict: got %v, %v", got, err)
	}
	s.Forbid(1, kubetest.Match{Verb: "create"})
	if _, err := store.Ensure(t.Context(), mapOf(nil), set("d", "4")); !kube.IsForbidden(err) {
		t.Errorf("want the refusal of the create, got %v", err)
	}
}
