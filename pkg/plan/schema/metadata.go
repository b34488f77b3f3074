package schema

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// inOrder is the entries of a mapping by key, so that faults have one order.
func inOrder(m map[string]any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// looseNames are the groups whose names may be anything that fits into a path.
var looseNames = []string{"rbac.authorization.k8s.io", "certificates.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io"}

// metadata checks what all objects have: name, namespace, labels, annotations.
func (o *objectCheck) metadata(object map[string]any, gvk kube.GroupVersionKind) {
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		if object["metadata"] != nil {
			if _, typed := linked().AllKnownTypes()[gvk]; !typed {
				o.refuseValue([]any{"metadata"}, aMapping, object["metadata"])
			}
		}
		return
	}
	if _, typed := linked().AllKnownTypes()[gvk]; !typed {
		o.checkValue(meta, reflect.TypeFor[metav1.ObjectMeta](), []any{"metadata"})
	}
	if name, ok := meta["name"].(string); ok && name != "" && !slices.Contains(looseNames, gvk.Group) {
		o.valid([]any{"metadata", "name"}, "metadata.name", validation.IsDNS1123Subdomain(name))
	}
	if name, ok := meta["generateName"].(string); ok && name != "" && isBlank(meta["name"]) && !isHook(object) {
		o.addFault(finding.RuleManifest, true, []any{"metadata", "generateName"},
			"metadata.generateName without metadata.name, which Helm cannot install", "write metadata.name")
	}
	if namespace, ok := meta["namespace"].(string); ok && namespace != "" {
		o.valid([]any{"metadata", "namespace"}, "metadata.namespace", validation.IsDNS1123Label(namespace))
	}
	o.labels(meta["labels"], []any{"metadata", "labels"}, true)
	o.labels(meta["annotations"], []any{"metadata", "annotations"}, false)
	o.podTemplate(object)
	o.selects(object, gvk)
	o.mounts(object, gvk)
	o.encoded(object, gvk)
	o.namespaces(object, gvk)
	o.checkRequired(object, gvk)
	o.pods(object, gvk)
	o.checkRefusedValues(object, gvk)
	o.exported(object, gvk)
}

// checkFieldCase finds apiVersion and kind that are written with other letters of the same
// name: agents do not take them for what they are.
func (o *objectCheck) checkFieldCase(object map[string]any) {
	want := []string{"apiVersion", "kind"}
	for key := range inOrder(object) {
		for _, name := range want {
			if key != name && strings.EqualFold(key, name) {
				o.addUnknownField([]any{key}, key, want, "")
			}
		}
	}
}

// namespaces checks the namespaces that the objects of Fleet deploy into.
func (o *objectCheck) namespaces(object map[string]any, gvk kube.GroupVersionKind) {
	spec, ok := object["spec"].(map[string]any)
	if gvk.Group != fleet.Group || !ok {
		return
	}
	for _, field := range []string{"targetNamespace", "namespace", "defaultNamespace"} {
		if name, ok := spec[field].(string); ok && name != "" {
			o.valid([]any{"spec", field}, "spec."+field, validation.IsDNS1123Label(name))
		}
	}
}

// podTemplate checks the labels of a pod template, wherever kinds have one.
func (o *objectCheck) podTemplate(object map[string]any) {
	at := object
	path := []any{}
	for _, key := range []string{"spec", "template", "metadata"} {
		next, ok := at[key].(map[string]any)
		if !ok {
			return
		}
		at, path = next, append(path, key)
	}
	o.labels(at["labels"], append(path, "labels"), true)
	o.labels(at["annotations"], append(path, "annotations"), false)
}

// labels checks the keys of labels or annotations, and the values of labels.
func (o *objectCheck) labels(v any, path []any, values bool) {
	entries, ok := v.(map[string]any)
	if !ok {
		return
	}
	for key, value := range inOrder(entries) {
		at := append(slices.Clone(path), key)
		name := key
		if !values {
			name = strings.ToLower(key)
		}
		if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
			o.addFault(finding.RuleValue, true, at, fmt.Sprintf("%s: not a possible key: %s", position.Path(at), withoutExamples(wrong[0])), "")
		} else if text, ok := value.(string); ok && values {
			o.valid(at, position.Path(at), validation.IsValidLabelValue(text))
		}
	}
}

func (o *objectCheck) valid(path []any, what string, wrong []string) {
	if len(wrong) > 0 {
		o.addFault(finding.RuleValue, false, path, fmt.Sprintf("%s is not possible: %s", what, withoutExamples(wrong[0])), "")
	}
}

// withoutExamples is an error of Kubernetes' validation without examples and expressions.
func withoutExamples(text string) string {
	text, _, _ = strings.Cut(text, " (e.g. ")
	return text
}

// selector checks a label selector whose types are right.
func (o *objectCheck) selector(entries map[string]any, path []any) {
	o.labels(entries["matchLabels"], append(slices.Clone(path), "matchLabels"), true)
	list, _ := entries["matchExpressions"].([]any)
	for i, e := range list {
		entry, _ := e.(map[string]any)
		at := append(slices.Clone(path), "matchExpressions", i)
		values, _ := entry["values"].([]any)
		switch operator, _ := entry["operator"].(string); metav1.LabelSelectorOperator(operator) {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(values) == 0 {
				o.addFault(finding.RuleValue, false, at, position.Path(at)+": operator "+operator+" needs values", "")
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(values) > 0 {
				o.addFault(finding.RuleValue, false, append(at, "values"), position.Path(at)+": operator "+operator+" takes no values", "")
			}
		default:
			o.addFault(finding.RuleValue, false, append(at, "operator"), position.Path(append(at, "operator"))+" must be In, NotIn, Exists or DoesNotExist", "")
		}
		if key, ok := entry["key"].(string); ok {
			o.valid(append(slices.Clone(at), "key"), position.Path(append(at, "key")), validation.IsQualifiedName(key))
		}
	}
}

// workloads are the groups of the kinds whose selector has to select their own
// pod template.
var workloads = []string{"apps", "batch", "extensions"}

// selects checks that the labels of a workload's pod template are those that its
// selector wants: the API server refuses all others.
func (o *objectCheck) selects(object map[string]any, gvk kube.GroupVersionKind) {
	if !slices.Contains(workloads, gvk.Group) {
		return
	}
	wanted, _, err := unstructured.NestedMap(object, "spec", "selector", "matchLabels")
	template, found, typed := unstructured.NestedMap(object, "spec", "template")
	if err != nil || typed != nil || !found {
		return
	}
	labels, _, err := unstructured.NestedMap(template, "metadata", "labels")
	if err != nil {
		return
	}
	for key, value := range inOrder(wanted) {
		if _, ok := value.(string); ok && labels[key] != value {
			at := []any{"spec", "selector", "matchLabels", key}
			o.addFault(finding.RuleValue, false, at, position.Path(at)+" must be a label of spec.template.metadata.labels with the same value", "")
		}
	}
}
