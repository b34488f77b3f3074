package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// ctx outlives the test function: a test also cleans up.
func (w *World) ctx() context.Context { return context.Background() }

// Get reads an object of a cluster as administrator. It reports whether there
// is one; any other error fails the test.
func Get[P kube.Object](w *World, m *Member, namespace, name string) (P, bool) {
	w.t.Helper()
	return get[P](w.t, m.Client, namespace, name)
}

// Read is Get for a Hub.
func Read[P kube.Object](t testing.TB, h *Hub, namespace, name string) (P, bool) {
	t.Helper()
	return get[P](t, h.Admin, namespace, name)
}

func get[P kube.Object](t testing.TB, c *kube.Client, namespace, name string) (P, bool) {
	t.Helper()
	obj, err := kube.StoreOf[P](c).Get(context.Background(), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		t.Fatal(err)
	}
	return obj, err == nil
}

// List reads the objects of a kind that a label selector matches, by
// namespace and name.
func List[P kube.Object](w *World, m *Member, namespace, selector string) []P {
	w.t.Helper()
	list, err := kube.StoreOf[P](m.Client).List(w.ctx(), namespace, selector)
	w.must(err)
	slices.SortFunc(list, func(a, b P) int {
		return strings.Compare(kube.KeyOf(a).String(), kube.KeyOf(b).String())
	})
	return list
}

// Create makes an object as administrator.
func Create[P kube.Object](w *World, m *Member, obj P) P {
	w.t.Helper()
	return create(w.t, m.Client, obj)
}

// Make is Create for a Hub.
func Make[P kube.Object](t testing.TB, h *Hub, obj P) P {
	t.Helper()
	return create(t, h.Admin, obj)
}

func create[P kube.Object](t testing.TB, c *kube.Client, obj P) P {
	t.Helper()
	made, err := kube.StoreOf[P](c).Create(context.Background(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Delete deletes an object as administrator. It does not wait.
func Delete[P kube.Object](w *World, m *Member, obj P) {
	w.t.Helper()
	w.must(kube.StoreOf[P](m.Client).Delete(w.ctx(), kube.KeyOf(obj), kube.Precondition{UID: obj.GetUID()}))
}

// Change changes an object as administrator, again after each conflict.
func Change[P kube.Object](w *World, m *Member, obj P, f func(P)) {
	w.t.Helper()
	Revise(w.t, m.Client, kube.KeyOf(obj), f)
}

// Edit is Change for a Hub.
func Edit[P kube.Object](t testing.TB, h *Hub, namespace, name string, f func(P)) {
	t.Helper()
	Revise(t, h.Admin, kube.Key{Namespace: namespace, Name: name}, f)
}

// CreateAllowed creates an object as a client that was given the right to do so a moment
// ago: an API server may not have heard of it yet.
func CreateAllowed[P kube.Object](t testing.TB, c *kube.Client, obj P) P {
	t.Helper()
	var made P
	Wait(t, Timeout, fmt.Sprintf("the right to create a %T counts", obj), func() bool {
		var err error
		made, err = kube.StoreOf[P](c).Create(context.Background(), obj)
		if !kube.IsForbidden(err) {
			must(t, err)
		}
		return err == nil
	})
	return made
}

// CreateOrPatch is Revise for an object that may not be there yet: then it is made of a
// blank one.
func CreateOrPatch[P kube.Object](t testing.TB, c *kube.Client, blank P, f func(P)) P {
	t.Helper()
	store := kube.StoreOf[P](c)
	_, err := store.Get(context.Background(), kube.KeyOf(blank))
	if !kube.IsGone(err) {
		must(t, err)
		return Revise(t, c, kube.KeyOf(blank), f)
	}
	f(blank)
	made, err := store.Create(context.Background(), blank)
	must(t, err)
	return made
}

// Revise changes an object as a client, again after each conflict, and returns
// the object that the API server has then.
func Revise[P kube.Object](t testing.TB, c *kube.Client, key kube.Key, f func(P)) P {
	t.Helper()
	store := kube.StoreOf[P](c)
	for {
		old, err := store.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		changed, ok := old.DeepCopyObject().(P)
		if !ok {
			t.Fatalf("the copy of a %T is a %T", old, changed)
		}
		f(changed)
		out, err := store.Patch(context.Background(), old, changed)
		switch {
		case err == nil:
			return out
		case !kube.IsConflict(err):
			t.Fatal(err)
		}
	}
}

// Cluster reads the Cluster of a member, which must exist.
func (w *World) Cluster(m *Member) *fleet.Cluster {
	w.t.Helper()
	c, ok := Get[*fleet.Cluster](w, w.Local, m.Workspace, m.Name)
	if !ok {
		w.t.Fatalf("Cluster %s is gone", m.Name)
	}
	return c
}

// Namespace is where the deployments of a member are.
func (w *World) Namespace(m *Member) string {
	w.t.Helper()
	namespace, ok := registration.DeploymentNamespace(w.Cluster(m))
	if !ok {
		w.t.Fatalf("Cluster %s has no namespace", m.Name)
	}
	return namespace
}

// Label sets a label of a member's Cluster, or removes it where value is
// empty. It is gone after the test.
func (w *World) Label(m *Member, key, value string) {
	w.t.Helper()
	set := func(c *fleet.Cluster, value string) {
		if value == "" {
			delete(c.Labels, key)
			return
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[key] = value
	}
	Change(w, w.Local, w.Cluster(m), func(c *fleet.Cluster) { set(c, value) })
	if value != "" {
		w.t.Cleanup(func() { Change(w, w.Local, w.Cluster(m), func(c *fleet.Cluster) { set(c, "") }) })
	}
}

// Data is a look at a ConfigMap of a cluster: its data, or nil.
func Data(w *World, m *Member, namespace, name string) func() map[string]string {
	return func() map[string]string {
		w.t.Helper()
		obj, ok := Get[*corev1.ConfigMap](w, m, namespace, name)
		if !ok {
			return nil
		}
		return obj.Data
	}
}

// Gone is a look at an object: whether there is none.
func Gone[P kube.Object](w *World, m *Member, namespace, name string) func() bool {
	return func() bool {
		w.t.Helper()
		_, ok := Get[P](w, m, namespace, name)
		return !ok
	}
}

func isTrue(list []fleet.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c fleet.Condition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
