package schema

import (
	"strings"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// serverFields are the metadata that API servers set.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"}

// Annotations that Helm and the deployment controller set on objects.
const (
	helmName        = "meta.helm.sh/release-name"
	helmNamespace   = "meta.helm.sh/release-namespace"
	rolloutRevision = "deployment.kubernetes.io/revision"
)

// exported warns of what an object has that was read from a cluster: who sets it there
// sets it again, so that the object stays Modified.
func (o *objectCheck) exported(object map[string]any, gvk kube.GroupVersionKind) {
	metadata, _ := object["metadata"].(map[string]any)
	var server, helm [][]any
	for _, field := range serverFields {
		if !isBlank(metadata[field]) {
			server = append(server, []any{"metadata", field})
		}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range []string{helmName, helmNamespace} {
		if annotations[key] != nil {
			helm = append(helm, []any{"metadata", "annotations", key})
		}
	}
	if annotations[rolloutRevision] != nil {
		server = append(server, []any{"metadata", "annotations", rolloutRevision})
	}
	if t, typed := linked().AllKnownTypes()[gvk]; typed && fieldsOf(t).types["status"] != nil && !isBlank(object["status"]) {
		server = append(server, []any{"status"})
	}
	o.warnOwnedFields(server, "the cluster sets it itself; take it out", "the cluster sets them itself; take them out")
	o.warnOwnedFields(helm, "Helm sets it itself; take it out", "Helm sets them itself; take them out")
}

// warnOwnedFields warns once of fields that other programs set, at the first of them.
func (o *objectCheck) warnOwnedFields(fields [][]any, one, more string) {
	if len(fields) == 0 {
		return
	}
	var names []string
	for _, path := range fields {
		names = append(names, position.Path(path))
	}
	if len(fields) == 1 {
		o.addWarning(fields[0], names[0]+" is not for a manifest", one)
		return
	}
	o.addWarning(fields[0], strings.Join(names, ", ")+" are not for a manifest", more)
}

// isBlank reports whether a value says nothing: null, an empty text, or mappings and lists of
// such. Generators of manifests write these.
func isBlank(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		for _, e := range v {
			if !isBlank(e) {
				return false
			}
		}
		return true
	case []any:
		for _, e := range v {
			if !isBlank(e) {
				return false
			}
		}
		return true
	}
	return false
}
