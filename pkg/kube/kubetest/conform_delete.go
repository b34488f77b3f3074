package kubetest

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func (c *conformity) delete() {
	made := c.configMap("made", nil)
	other := kube.Precondition{UID: "00000000-0000-4000-8000-00000000ffff"}
	c.refused(c.configMaps.Delete(c.Context(), c.key("made"), other), kube.IsConflict, "it is another object")
	old := kube.Precondition{UID: made.UID, ResourceVersion: "1"}
	c.refused(c.configMaps.Delete(c.Context(), c.key("made"), old), kube.IsConflict, "it was changed since")
	if err := c.configMaps.Delete(c.Context(), c.key("made"), kube.Precondition{UID: made.UID, ResourceVersion: made.ResourceVersion}); err != nil {
		c.Error(err)
	}
	_, err := c.configMaps.Get(c.Context(), c.key("made"))
	c.refused(err, kube.IsGone, "it is deleted")
	c.refused(c.dynamic.Resource(configMapKind).Namespace(c.ns).Delete(c.Context(), "made", metav1.DeleteOptions{}), apierrors.IsNotFound, "it is deleted")
	if again := c.configMap("made", nil); again.UID == made.UID {
		c.Error("an object that was made again has the same UID")
	}
}

// An object with finalizers stays, with a deletion timestamp, until the last finalizer
// is removed.
func (c *conformity) finalizers() {
	made := c.cluster()
	held := made.DeepCopy()
	held.Finalizers = []string{"conform.example/hold", "conform.example/other"}
	held = c.okCluster(c.clusters.Patch(c.Context(), made, held))
	remove := func() *fleet.Cluster {
		if err := c.clusters.Delete(c.Context(), c.key("cluster"), kube.Precondition{}); err != nil {
			c.Fatal(err)
		}
		return c.okCluster(c.clusters.Get(c.Context(), c.key("cluster")))
	}
	marked := remove()
	if marked.DeletionTimestamp == nil || marked.Generation != held.Generation+1 || len(marked.Finalizers) != 2 {
		c.Errorf("want it marked, got %+v", marked.ObjectMeta)
	}
	if again := remove(); again.ResourceVersion != marked.ResourceVersion {
		c.Error("a second deletion has written")
	}
	more := marked.DeepCopy()
	more.Finalizers = append(more.Finalizers, "conform.example/more")
	_, err := c.clusters.Patch(c.Context(), marked, more)
	c.refused(err, apierrors.IsInvalid, "no finalizer can be added any more")
	one := marked.DeepCopy()
	one.Finalizers, one.DeletionTimestamp = one.Finalizers[:1], nil
	one = c.okCluster(c.clusters.Update(c.Context(), one))
	if one.DeletionTimestamp == nil || len(one.Finalizers) != 1 {
		c.Errorf("want a finalizer less and the mark kept, got %+v", one.ObjectMeta)
	}
	none := one.DeepCopy()
	none.Finalizers = nil
	c.okCluster(c.clusters.Patch(c.Context(), one, none))
	_, err = c.clusters.Get(c.Context(), c.key("cluster"))
	c.refused(err, kube.IsGone, "the last finalizer is removed")
}

// owned creates an owner and an object that it owns, named "dependent".
func (c *conformity) owned() (owner *corev1.ConfigMap, w *watching) {
	owner = c.configMap("owner", nil)
	dependent := c.newConfigMap("dependent", nil)
	dependent.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true),
	}}
	dependent = c.okMap(c.configMaps.Create(c.Context(), dependent))
	return owner, c.watching(metav1.ListOptions{ResourceVersion: dependent.ResourceVersion})
}

func (c *conformity) owners() {
	owner, w := c.owned()
	if err := c.configMaps.Delete(c.Context(), kube.KeyOf(owner), kube.Precondition{}); err != nil {
		c.Fatal(err)
	}
	w.wants(watch.Deleted, "owner")
	c.collect()
	w.wants(watch.Deleted, "dependent")
}

// A foreground deletion deletes the owner last.
func (c *conformity) foreground() {
	owner, w := c.owned()
	opts := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
	if err := c.dynamic.Resource(configMapKind).Namespace(c.ns).Delete(c.Context(), owner.Name, opts); err != nil {
		c.Fatal(err)
	}
	if o := w.wants(watch.Modified, "owner"); o.GetDeletionTimestamp() == nil {
		c.Error("the owner is not marked")
	}
	c.collect()
	w.until("dependent")
	w.until("owner")
}

func newCluster(namespace, name string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: fleet.ClusterSpec{ClientID: "applied"}}
}

func fromConfigMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}, "data": data,
	}}
}

func dataOf(o *unstructured.Unstructured) map[string]string {
	out, _, _ := unstructured.NestedStringMap(o.Object, "data")
	return out
}

// managersOf returns the entries of an object's managed fields:
// manager/operation/subresource.
func managersOf(o metav1.Object) map[string]bool {
	out := map[string]bool{}
	for _, m := range o.GetManagedFields() {
		out[m.Manager+"/"+string(m.Operation)+"/"+m.Subresource] = true
	}
	return out
}

func codeOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}
