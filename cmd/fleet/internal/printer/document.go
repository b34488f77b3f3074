package printer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DocumentVersion is the apiVersion of the documents that commands print.
// Fields are only ever added; docs/cli holds a JSON schema of each kind.
const DocumentVersion = "cli.fleet.cattle.io/v1"

// Document begins every document.
type Document struct {
	// APIVersion is cli.fleet.cattle.io/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the document.
	Kind string `json:"kind"`
}

// NewDocument is the head of a document of a kind.
func NewDocument(kind string) Document { return Document{DocumentVersion, kind} }

// ListDocument is a List as kubectl makes it.
func ListDocument(objects []*unstructured.Unstructured) any {
	items := make([]any, len(objects))
	for i, u := range objects {
		items[i] = WithoutManagedFields(u)
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "List", "items": items, "metadata": map[string]any{"resourceVersion": ""},
	}
}

// WithoutManagedFields is an object without managedFields, as kubectl shows it.
func WithoutManagedFields(u *unstructured.Unstructured) map[string]any {
	c := u.DeepCopy()
	c.SetManagedFields(nil)
	return c.Object
}
