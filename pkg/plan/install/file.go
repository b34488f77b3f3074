package install

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Complete puts the namespaces of objects before them, so that one command can apply the
// whole to an empty cluster. Namespaces that every cluster has, and those among objects,
// are not repeated. The order of objects stays.
func Complete(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	there := []string{"", "default"}
	var missing []string
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			there = append(there, o.GetName())
		}
	}
	for _, o := range objects {
		ns := o.GetNamespace()
		if !slices.Contains(there, ns) && !strings.HasPrefix(ns, "kube-") {
			there, missing = append(there, ns), append(missing, ns)
		}
	}
	slices.Sort(missing)
	out := make([]*unstructured.Unstructured, 0, len(missing)+len(objects))
	for _, name := range missing {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		}})
	}
	return append(out, objects...)
}

// Text returns objects as a stream of YAML for kubectl apply. about are lines of comment
// before it.
func Text(about []string, objects []*unstructured.Unstructured) (string, error) {
	var b strings.Builder
	for _, line := range about {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	for _, o := range objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", fmt.Errorf("write %s %q: %w", o.GetKind(), o.GetName(), err)
		}
		b.WriteString("---\n")
		b.Write(data)
	}
	return b.String(), nil
}
