package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// server is the API server of all worlds. An engine works on all that is there,
// so there is one world at a time, and each finds the server empty.
var server harness.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// installKinds makes a new API server one of a management cluster.
func installKinds(c *cluster.Cluster) error {
	admin, err := kube.Connect(kube.Config{REST: c.REST(), UserAgent: "sandbox-admin", FieldManager: "test"})
	if err != nil {
		return err
	}
	return harness.InstallKinds(context.Background(), admin)
}

// empty removes what the world before has left: all objects of Fleet, and what is
// in its namespaces. The namespaces stay, as they were when they were new:
// Kubernetes takes seconds to remove one.
func (w *world) empty() {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.cluster.REST())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range fleet.Kinds() {
		w.emptyOf(client.Resource(fleet.GroupVersion.WithResource(k.Plural)))
	}
	for _, r := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Group: "events.k8s.io", Version: "v1", Resource: "events"},
	} {
		w.emptyOf(client.Resource(r))
	}
	namespaces := kube.StoreOf[*corev1.Namespace](w.admin)
	list, err := namespaces.List(w.t.Context(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, ns := range list {
		if system(ns.Name) {
			continue
		}
		changed := ns.DeepCopy()
		changed.Annotations, changed.Labels = nil, map[string]string{corev1.LabelMetadataName: ns.Name}
		if _, err := namespaces.Patch(w.t.Context(), ns, changed); err != nil {
			w.t.Fatal(err)
		}
	}
}

// emptyOf removes all objects of a kind outside of Kubernetes' own namespaces,
// whoever wants to see to that first.
func (w *world) emptyOf(kind dynamic.NamespaceableResourceInterface) {
	w.t.Helper()
	ctx := w.t.Context()
	w.until("nothing is left", func() bool {
		list, err := kind.List(ctx, metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		left := false
		for _, o := range list.Items {
			if system(o.GetNamespace()) || o.GetName() == "kube-root-ca.crt" {
				continue
			}
			left = true
			of := kind.Namespace(o.GetNamespace())
			if len(o.GetFinalizers()) > 0 {
				_, err = of.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
			if err == nil {
				err = of.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) {
				w.t.Fatal(err)
			}
		}
		return !left
	})
}

// system tells whether a namespace is Kubernetes' own.
func system(namespace string) bool {
	return namespace == metav1.NamespaceDefault || strings.HasPrefix(namespace, "kube-")
}

// namespace makes a namespace, or makes one that the world before has left as it
// shall be.
func (w *world) namespace(want *corev1.Namespace) error {
	w.t.Helper()
	ctx := w.t.Context()
	namespaces := kube.StoreOf[*corev1.Namespace](w.admin)
	w.until("namespace "+want.Name+" is not going any more", func() bool {
		ns := get[*corev1.Namespace](w, kube.Key{Name: want.Name})
		return ns == nil || ns.DeletionTimestamp == nil
	})
	if _, err := namespaces.Create(ctx, want); !kube.IsExists(err) {
		return err
	}
	update(w, kube.Key{Name: want.Name}, func(ns *corev1.Namespace) {
		ns.Annotations = want.Annotations
		for key, value := range want.Labels {
			ns.Labels[key] = value
		}
	})
	return nil
}
