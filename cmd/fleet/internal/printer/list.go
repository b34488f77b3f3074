package printer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ListDocument is a List as kubectl makes it.
func ListDocument(objects []*unstructured.Unstructured) any {
	items := make([]any, len(objects))
	for i, u := range objects {
		items[i] = Plain(u)
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "List", "items": items, "metadata": map[string]any{"resourceVersion": ""},
	}
}

// Plain is an object without managedFields, as kubectl shows it.
func Plain(u *unstructured.Unstructured) map[string]any {
	c := u.DeepCopy()
	c.SetManagedFields(nil)
	return c.Object
}
