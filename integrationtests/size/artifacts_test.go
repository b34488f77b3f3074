package size_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// registry notes what is deleted.
type registry struct {
	mu      sync.Mutex
	deleted []string
	err     error
}

func (r *registry) Delete(_ context.Context, at oci.Registry, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.deleted = append(r.deleted, at.Reference+"/"+id[:6]+" by "+at.Username)
	}
	return r.err
}

func (r *registry) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.deleted))
}

// What is in a registry is removed with the last Bundle that names it there;
// clusters get the credentials to read it before the deployment.
func TestArtifactsOfBundles(t *testing.T) {
	w := newSweepWorld(t)
	secrets, bundles := kube.StoreOf[*corev1.Secret](w.client), kube.StoreOf[*fleet.Bundle](w.client)
	ids := []string{content.IDOf(strings.Repeat("a", 64)), content.IDOf(strings.Repeat("b", 64))}
	for _, ns := range []string{"ws", "ws2"} {
		for _, id := range ids {
			made(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: id, Labels: map[string]string{
				fleet.LabelManaged: "true", fleet.LabelInternalSecret: "true"}}, Type: fleet.SecretTypeOCIStorage,
				StringData: map[string]string{"reference": "registry.example/x", "username": "pusher", "password": "push-canary",
					"agentUsername": "puller", "agentPassword": "pull", "basicHTTP": "true"}})
		}
	}
	made(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", Annotations: map[string]string{
		registration.AnnotationDeploymentNamespace: "c1"}}})
	if _, err := kube.StoreOf[*fleet.Cluster](w.client).PatchRaw(t.Context(), kube.Key{Namespace: "ws", Name: "c1"}, types.MergePatchType,
		[]byte(`{"status":{"namespace":"c1"}}`), "status"); err != nil {
		t.Fatal(err)
	}
	everywhere := []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	for _, b := range []struct{ namespace, name, id string }{{"ws", "a", ids[0]}, {"ws", "b", ids[0]}, {"ws2", "c", ids[0]}, {"ws", "d", ids[1]}, {"ws", "late", ids[0]}} {
		made(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: b.name},
			Spec: fleet.BundleSpec{ContentsID: b.id, Targets: everywhere}})
	}
	for _, name := range []string{"a", "b", "d", "late"} {
		w.until(name+" is deployed", func() bool {
			bd, err := kube.StoreOf[*fleet.BundleDeployment](w.client).Get(t.Context(), kube.Key{Namespace: "c1", Name: name})
			if err != nil {
				return false
			}
			if !bd.Spec.OCIContents || !strings.HasPrefix(bd.Spec.DeploymentID, "s-") || bd.Labels[fleet.LabelContentName] != "" {
				t.Errorf("%s: %+v", name, bd.Spec)
			}
			return true
		})
	}
	there := func(key kube.Key) bool { _, err := secrets.Get(t.Context(), key); return err == nil }
	copied, err := secrets.Get(t.Context(), kube.Key{Namespace: "c1", Name: ids[0]})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"reference": []byte("registry.example/x"), "username": []byte("puller"), "password": []byte("pull"), "basicHTTP": []byte("true")}
	if diff := cmp.Diff(want, copied.Data); diff != "" || copied.Labels[fleet.LabelManaged] != "true" || copied.Type != fleet.SecretTypeOCIStorage {
		t.Errorf("what it takes to push stays at home: %s", diff)
	}
	remove := func(namespace, name string) {
		t.Helper()
		if err := bundles.Delete(t.Context(), kube.Key{Namespace: namespace, Name: name}, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		w.until(name+" is gone", func() bool {
			_, err := bundles.Get(t.Context(), kube.Key{Namespace: namespace, Name: name})
			return kube.IsGone(err)
		})
	}
	// Credentials that change are passed on, and nothing else happens.
	source, err := secrets.Get(t.Context(), kube.Key{Namespace: "ws", Name: ids[0]})
	if err != nil {
		t.Fatal(err)
	}
	source.Data["agentPassword"] = []byte("pull2")
	if _, err := secrets.Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	w.until("the copy follows", func() bool {
		now, err := secrets.Get(t.Context(), kube.KeyOf(copied))
		return err == nil && string(now.Data["password"]) == "pull2"
	})

	// One Bundle has newer content, which its deployment is held back from.
	set := func(body string) {
		t.Helper()
		if _, err := bundles.PatchRaw(t.Context(), kube.Key{Namespace: "ws", Name: "late"}, types.MergePatchType, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	set(`{"spec":{"paused":true,"contentsId":"` + ids[1] + `"}}`)
	w.until("late is held back", func() bool {
		bd, err := kube.StoreOf[*fleet.BundleDeployment](w.client).Get(t.Context(), kube.Key{Namespace: "c1", Name: "late"})
		return err == nil && strings.HasPrefix(bd.Spec.StagedDeploymentID, ids[1]) && strings.HasPrefix(bd.Spec.DeploymentID, ids[0])
	})

	remove("ws", "a")
	w.settle(ids)
	if got := w.registry.list(); len(got) > 0 || !there(kube.KeyOf(copied)) {
		t.Errorf("b needs it: deleted %v", got)
	}
	remove("ws", "b")
	w.settle(ids)
	w.later(11*time.Minute, ids...)
	w.settle(ids)
	if !there(kube.Key{Namespace: "ws", Name: ids[0]}) || !there(kube.KeyOf(copied)) {
		t.Error("what is held back runs with it, though no Bundle of ws names it any more")
	}
	set(`{"spec":{"paused":false}}`)
	w.until("no Bundle in ws needs the Secret", func() bool {
		w.later(11*time.Minute, ids...)
		return !there(kube.Key{Namespace: "ws", Name: ids[0]})
	})
	remove("ws", "late")
	w.until("the clusters' copies go", func() bool { w.later(11*time.Minute, ids...); return !there(kube.KeyOf(copied)) })
	if got := w.registry.list(); len(got) > 0 {
		t.Errorf("the Bundle of another namespace needs it: deleted %v", got)
	}
	remove("ws2", "c") // targets no cluster, so nothing holds it up: the sweep tidies up
	w.until("the last one takes it along", func() bool {
		w.later(11*time.Minute, ids...)
		return cmp.Equal(w.registry.list(), []string{"registry.example/x/" + ids[0][:6] + " by pusher"})
	})

	w.registry.mu.Lock()
	w.registry.err = errors.New("registry.example is away")
	w.registry.mu.Unlock()
	remove("ws", "d")
	w.until("a failure is reported and holds up no other", func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](w.client).List(t.Context(), "ws", "")
		return err == nil && slices.ContainsFunc(list, func(e *eventsv1.Event) bool {
			return e.Reason == "FailedToDeleteOCIArtifact" && e.Regarding.Name == "d" && strings.Contains(e.Note, "is away")
		})
	})
}
