package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
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

// A manager works on all that is there, so a world has an API server for itself,
// and finds it empty. Two servers are enough: worlds wait for most of their time,
// but their agents are not to be late.
var (
	servers [2]harness.Server
	free    = make(chan *harness.Server, len(servers))
)

func TestMain(m *testing.M) {
	for i := range servers {
		free <- &servers[i]
	}
	code := harness.Parallel(m)
	for i := range servers {
		servers[i].Stop()
	}
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

// empty removes what the world before has left, whose engine and agents have
// ended: all objects of Fleet, and what is in its namespaces. The namespaces stay,
// as they were when they were new: Kubernetes takes seconds to remove one.
func (w *world) empty() {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.cluster.REST())
	if err != nil {
		w.t.Fatal(err)
	}
	kinds := []schema.GroupVersionResource{
		{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Group: "events.k8s.io", Version: "v1", Resource: "events"},
	}
	for _, k := range fleet.Kinds() {
		kinds = append(kinds, fleet.GroupVersion.WithResource(k.Plural))
	}
	var all errgroup.Group // the first look at a kind takes the API server long
	for _, k := range kinds {
		all.Go(func() error { return removeAll(w.t.Context(), client.Resource(k)) })
	}
	if err := all.Wait(); err != nil {
		w.t.Fatal(err)
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

// removeAll removes all objects of a kind outside of Kubernetes' own namespaces,
// whoever wants to see to that first.
func removeAll(ctx context.Context, kind dynamic.NamespaceableResourceInterface) error {
	list, err := kind.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if system(o.GetNamespace()) || o.GetName() == "kube-root-ca.crt" {
			continue
		}
		if err := removeOne(ctx, kind.Namespace(o.GetNamespace()), &o); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func removeOne(ctx context.Context, kind dynamic.ResourceInterface, o metav1.Object) error {
	if len(o.GetFinalizers()) > 0 {
		nobody := []byte(`{"metadata":{"finalizers":null}}`)
		if _, err := kind.Patch(ctx, o.GetName(), types.MergePatchType, nobody, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return kind.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
}

// system reports whether a namespace is Kubernetes' own.
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
