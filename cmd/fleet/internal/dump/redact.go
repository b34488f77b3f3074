package dump

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

// secretWords are in the name of an environment variable whose value may be a credential.
var secretWords = regexp.MustCompile(`(?i)passw|passphrase|token|secret|credential|key|auth`)

// redactObject removes from an object what may hold credentials, in place. With content the files of a Bundle and
// the content of a Content stay.
func redactObject(o *unstructured.Unstructured, content bool) {
	annotations := o.GetAnnotations()
	if text, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		annotations[corev1.LastAppliedConfigAnnotation] = sizeText(text)
		o.SetAnnotations(annotations)
	}
	if !content {
		redactFiles(o)
	}
	if o.GetKind() == "ClusterRegistration" {
		if _, ok, _ := unstructured.NestedString(o.Object, "spec", "clientRandom"); ok {
			_ = unstructured.SetNestedField(o.Object, redact.LeftOut, "spec", "clientRandom")
		}
	}
	redactValue(o.Object, "")
}

func redactFiles(o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Content":
		if text, ok := o.Object["content"].(string); ok {
			o.Object["content"] = sizeText(text)
		}
	case "Bundle":
		files, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "resources")
		list, _ := files.([]any)
		for _, f := range list {
			if m, ok := f.(map[string]any); ok {
				if text, ok := m["content"].(string); ok {
					m["content"] = sizeText(text)
				}
			}
		}
	}
}

func sizeText(text string) string { return fmt.Sprintf("%s: %d bytes", redact.LeftOut, len(text)) }

// redactValue removes credentials from a value under a key, and returns it.
func redactValue(v any, key string) any {
	switch v := v.(type) {
	case string:
		return redact.Credentials(v)
	case []any:
		for i := range v {
			v[i] = redactValue(v[i], key)
		}
	case map[string]any:
		redactMap(v, key)
	}
	return v
}

func redactMap(m map[string]any, key string) {
	secret := strings.EqualFold(fmt.Sprint(m["kind"]), "Secret")
	name, _ := m["name"].(string)
	for k, v := range m {
		switch {
		case k == "templateValues", key == "helm" && k == "values":
			m[k] = blank(v)
		case secret && slices.Contains([]string{"data", "stringData", "patch", "changes"}, k):
			m[k] = redact.LeftOut
		case k == "value" && secretWords.MatchString(name):
			m[k] = redact.LeftOut
		default:
			m[k] = redactValue(v, k)
		}
	}
}

// blank keeps the keys of values and leaves the values out: Fleet itself keeps them in Secrets.
func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = blank(v[k])
		}
		return v
	case nil:
		return nil
	}
	return redact.LeftOut
}

// secretMetadata is what the archive has of a Secret: names, labels, type, and the size of each key. The
// values of annotations are left out, for one of them may be a copy of the data.
func secretMetadata(o *unstructured.Unstructured) map[string]any {
	sizes := map[string]any{}
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	for k, v := range data {
		text, _ := v.(string)
		sizes[k] = int64(len(strings.TrimRight(text, "=")) * 3 / 4)
	}
	meta := map[string]any{"name": o.GetName(), "namespace": o.GetNamespace(), "uid": string(o.GetUID())}
	if at, ok, _ := unstructured.NestedString(o.Object, "metadata", "creationTimestamp"); ok {
		meta["creationTimestamp"] = at
	}
	if labels := o.GetLabels(); len(labels) > 0 {
		meta["labels"] = labels
	}
	if owners, ok, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences"); ok {
		meta["ownerReferences"] = owners
	}
	out := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": o.Object["type"], "sizes": sizes}
	if annotations := o.GetAnnotations(); len(annotations) > 0 {
		out["annotationNames"] = slices.Sorted(maps.Keys(annotations))
	}
	return out
}
