package kubetest

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A thing is a kind that a test of Conform defines, in a group of its own.
type thing struct {
	*conformity
	definition *apiextensionsv1.CustomResourceDefinition
	all        dynamic.ResourceInterface // in the namespace of the test
}

// newThing returns a kind that is not defined yet. It keeps the field known of its spec, has a
// default, and keeps everything below spec.free.
func newThing(c *conformity) *thing {
	group := c.ns + ".example"
	free := true
	return &thing{
		conformity: c,
		all:        c.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(c.ns),
		definition: &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", ListKind: "ThingList", Plural: "things", Singular: "thing"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &shape{Type: "object", Properties: map[string]shape{
						"spec": {Type: "object", Properties: map[string]shape{
							"known":  {Type: "string"},
							"free":   {Type: "object", XPreserveUnknownFields: &free},
							"preset": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"yes"`)}},
							"words":  {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &shape{Type: "string"}}},
							"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &shape{
								Type: "object", Properties: map[string]shape{"known": {Type: "string"}},
							}}},
						}},
						"status": {Type: "object", XPreserveUnknownFields: &free},
					}}},
				}},
			},
		},
	}
}

func (t *thing) definitions() *kube.Store[*apiextensionsv1.CustomResourceDefinition] {
	return kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](t.client)
}

// define creates the definition, and waits until the kind is served.
func (t *thing) define() {
	t.Helper()
	if _, err := t.definitions().Create(t.Context(), t.definition.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.collected("the kind is served", func() bool {
		_, err := t.all.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	now, err := t.definitions().Get(t.Context(), kube.Key{Name: t.definition.Name})
	if err != nil || !t.is(now, apiextensionsv1.Established) || !t.is(now, apiextensionsv1.NamesAccepted) || now.Status.AcceptedNames.Kind != "Thing" {
		t.Errorf("want it established, got %+v, %v", now, err)
	}
}

func (t *thing) is(crd *apiextensionsv1.CustomResourceDefinition, kind apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == kind {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// make creates an object of the kind.
func (t *thing) make(name string, spec map[string]any, finalizers ...string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": t.definition.Spec.Group + "/v1", "kind": "Thing", "spec": spec}}
	obj.SetName(name)
	obj.SetFinalizers(finalizers)
	return t.all.Create(t.Context(), obj, metav1.CreateOptions{})
}

func (t *thing) delete() {
	t.Helper()
	if err := t.definitions().Delete(t.Context(), kube.Key{Name: t.definition.Name}, kube.Precondition{}); err != nil {
		t.Fatal(err)
	}
}

// gone waits until the definition is gone and its kind is not served.
func (t *thing) gone() {
	t.Helper()
	t.collected("the definition is gone", func() bool {
		_, err := t.definitions().Get(t.Context(), kube.Key{Name: t.definition.Name})
		return kube.IsGone(err)
	})
	t.collected("the kind is not served", func() bool {
		_, err := t.all.List(t.Context(), metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	found := discovery.NewDiscoveryClientForConfigOrDie(t.cfg)
	t.collected("discovery does not find it", func() bool {
		_, err := found.ServerResourcesForGroupVersion(t.definition.Spec.Group + "/v1")
		return apierrors.IsNotFound(err)
	})
}

// The kind of a CustomResourceDefinition is served while that exists. A deletion deletes
// the objects, and waits for their finalizers.
func conformDefinitions(c *conformity) {
	t := newThing(c)
	_, err := t.make("early", nil)
	c.refused(err, apierrors.IsNotFound, "the kind is not defined")
	t.define()
	_, err = t.make("held", map[string]any{"known": "a"}, "conform.example/hold")
	if err != nil {
		c.Fatal(err)
	}
	if _, err := t.make("free", nil); err != nil {
		c.Fatal(err)
	}
	w, err := t.all.Watch(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	t.delete()
	c.collected("the objects are deleted", func() bool {
		list, err := t.all.List(c.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].GetDeletionTimestamp() != nil
	})
	now, err := t.definitions().Get(c.Context(), kube.Key{Name: t.definition.Name})
	if err != nil || now.DeletionTimestamp == nil || len(now.Finalizers) != 1 || now.Finalizers[0] != apiextensionsv1.CustomResourceCleanupFinalizer || !t.is(now, apiextensionsv1.Terminating) {
		c.Errorf("want the definition to wait for its objects, got %+v, %v", now, err)
	}
	_, err = t.make("late", nil)
	c.refused(err, apierrors.IsForbidden, "the definition is being deleted")
	if _, err := t.definitions().Create(c.Context(), t.definition.DeepCopy()); !kube.IsExists(err) {
		c.Errorf("want the definition to exist still, got %v", err)
	}
	held, err := t.all.Get(c.Context(), "held", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	held.SetFinalizers(nil)
	if _, err := t.all.Update(c.Context(), held, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
	t.gone()
	t.ended(w)
	t.again(held)
}

// ended checks that a watch has reported the deletion of both objects, and ends.
func (t *thing) ended(w watch.Interface) {
	t.Helper()
	deleted := 0
	for e := range w.ResultChan() {
		if e.Type == watch.Deleted {
			deleted++
		}
	}
	if deleted != 2 {
		t.Errorf("want the deletion of 2 objects, got %d", deleted)
	}
}

// again defines the kind once more: it has no objects.
func (t *thing) again(before *unstructured.Unstructured) {
	t.Helper()
	t.define()
	list, err := t.all.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("want no object, got %v, %v", list, err)
	}
	made, err := t.make("held", nil)
	if err != nil || made.GetUID() == before.GetUID() {
		t.Errorf("want another object of the name, got %v, %v", made, err)
	}
	t.delete()
	t.gone()
}

// An object has the fields of its schema, and its defaults.
func conformSchemas(c *conformity) {
	t := newThing(c)
	t.define()
	defer t.delete()
	made, err := t.make("made", map[string]any{
		"known": "a", "unknown": "b", "free": map[string]any{"any": map[string]any{"x": int64(1)}}, "words": map[string]any{"any": "word"},
		"list": []any{map[string]any{"known": "a", "unknown": "b"}},
	})
	if err != nil {
		c.Fatal(err)
	}
	want := `{"free":{"any":{"x":1}},"known":"a","list":[{"known":"a"}],"preset":"yes","words":{"any":"word"}}`
	if got := printedJSON(made.Object["spec"]); got != want {
		c.Errorf("want %s, got %s", want, got)
	}
	patch := []byte(`{"unknown":1,"metadata":{"labels":{"any":"label"}},"spec":{"unknown":"b","preset":"no","list":null}}`)
	made, err = t.all.Patch(c.Context(), "made", "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		c.Fatal(err)
	}
	want = strings.Replace(strings.Replace(want, `"list":[{"known":"a"}],`, "", 1), "yes", "no", 1)
	if got := printedJSON(made.Object["spec"]); got != want || made.Object["unknown"] != nil || made.GetLabels()["any"] != "label" {
		c.Errorf("want %s, got %s, %v", want, got, made)
	}
}
