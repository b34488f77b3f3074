package drift

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// known are the kinds whose Go types define how their fields are understood.
var known = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // a fault of the program: a type was registered twice
		}
	}
	return s
}()

// kind is how objects of one kind are compared.
type kind struct {
	gvk        schema.GroupVersionKind
	aggregated bool                           // a ClusterRole whose rules a controller writes
	typed      bool                           // its Go type is known
	meta       strategicpatch.LookupPatchMeta // of its fields; nil if unknown
}

func kindOf(o *unstructured.Unstructured) kind {
	k := kind{gvk: o.GroupVersionKind(), typed: known.Recognizes(o.GroupVersionKind())}
	_, k.aggregated, _ = unstructured.NestedMap(o.Object, "aggregationRule")
	if !k.typed {
		return k
	}
	if obj, err := known.New(k.gvk); err == nil {
		if m, err := strategicpatch.NewPatchMetaFromStruct(obj); err == nil {
			k.meta = m
		}
	}
	return k
}

// isExcluded reports whether a field belongs to another program by design.
func (k kind) isExcluded(path []string) bool {
	switch path[0] {
	case "status", "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) > 1 && path[1] != "labels" && path[1] != "annotations" ||
			len(path) == 3 && path[1] == "annotations" && foreignAnnotations[path[2]]
	case "rules":
		return k.aggregated && k.gvk.Kind == "ClusterRole"
	case "secrets":
		return k.gvk.Kind == "ServiceAccount" && k.gvk.Group == ""
	}
	if path[len(path)-1] == "caBundle" {
		switch k.gvk.Group {
		case "admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io":
			return true
		}
	}
	return false
}

// foreignAnnotations belong to programs that rewrite them. Manifests have them
// that were exported from a cluster.
var foreignAnnotations = map[string]bool{
	"kubectl.kubernetes.io/last-applied-configuration": true,
	"deployment.kubernetes.io/revision":                true,
	"deprecated.daemonset.template.generation":         true,
	"pv.kubernetes.io/bind-completed":                  true,
	"pv.kubernetes.io/bound-by-controller":             true,
}

// defaultedFields are those to which the API server gives a value where theirs is
// zero, although a zero is kept for others: a manifest with such a zero asks for
// nothing.
var defaultedFields = map[string]bool{
	"apiGroup": true, "apiVersion": true, "clusterIP": true, "clusterIPs": true, "concurrencyPolicy": true,
	"dnsPolicy": true, "externalTrafficPolicy": true, "failureThreshold": true, "healthCheckNodePort": true,
	"imagePullPolicy": true, "imagePullSecrets": true, "ipFamilies": true, "listKind": true, "nodeName": true, "nodePort": true, "path": true, "periodSeconds": true,
	"persistentVolumeReclaimPolicy": true, "podManagementPolicy": true, "policyTypes": true, "protocol": true,
	"resourceVersion": true, "restartPolicy": true, "schedulerName": true, "scheme": true, "serviceAccount": true,
	"serviceAccountName": true, "sessionAffinity": true, "singular": true, "successThreshold": true, "targetPort": true,
	"terminationMessagePath": true, "terminationMessagePolicy": true, "timeoutSeconds": true, "type": true, "uid": true,
	"volumeName": true,
}

// textMaps are the fields of known kinds whose keys are the user's.
var textMaps = map[string]bool{
	"annotations": true, "binaryData": true, "data": true, "labels": true, "matchLabels": true, "nodeSelector": true,
	"parameters": true, "selector": true, "stringData": true,
}

// defaults reports whether the API server gives a field a value where it has none
// or a zero.
func (k kind) defaults(names []string) bool {
	known := k.typed || k.gvk.Group == "apiextensions.k8s.io"
	users := len(names) > 1 && textMaps[names[len(names)-2]]
	return known && !users && defaultedFields[names[len(names)-1]]
}

// equalValues compares two plain values. In kinds that the API server knows no types of,
// controllers rewrite quantities and durations in their own spelling.
func (k kind) equalValues(w, l any, names []string) bool {
	if equalValues(w, l) {
		return true
	}
	if k.typed {
		return false
	}
	ws, ok := withoutUnsetMark(w).(string)
	if !ok {
		ws = fmt.Sprint(withoutUnsetMark(w))
	}
	ls, isText := withoutUnsetMark(l).(string)
	if !isText {
		ls = fmt.Sprint(withoutUnsetMark(l))
	}
	if slices.ContainsFunc(names, func(n string) bool { return amounts[n] }) {
		a, errA := resource.ParseQuantity(ws)
		b, errB := resource.ParseQuantity(ls)
		return errA == nil && errB == nil && a.Cmp(b) == 0
	}
	if !ok || !isText {
		return false
	}
	a, errA := time.ParseDuration(ws)
	b, errB := time.ParseDuration(ls)
	return errA == nil && errB == nil && a == b
}

// amounts are the fields of custom resources that hold quantities by name.
var amounts = map[string]bool{"requests": true, "limits": true, "capacity": true, "hard": true}

// normal is a wanted object as Kubernetes understands it: the same fields,
// with values in the form in which the API server keeps them. Fields that it
// does not keep, because they say the same as their absence, are unset.
func (k kind) normal(in map[string]any) map[string]any {
	in = withoutStringData(k, in)
	c, ok := k.canonical(in)
	if !ok {
		return markZerosUnset(in).(map[string]any)
	}
	return overlay(in, c).(map[string]any)
}

// normalLive is a live object in the same form.
func (k kind) normalLive(in map[string]any) map[string]any {
	c, ok := k.canonical(in)
	if !ok {
		return in
	}
	out, ok := withoutUnsetMarks(overlay(in, c)).(map[string]any)
	if !ok {
		return in
	}
	return out
}

// canonical is an object as its Go type writes it. It is false if the kind is
// unknown, or the object does not fit its type.
func (k kind) canonical(in map[string]any) (map[string]any, bool) {
	if !k.typed {
		return nil, false
	}
	obj, err := known.New(k.gvk)
	if err != nil {
		return nil, false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in, obj); err != nil {
		return nil, false
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	return out, err == nil
}

// overlay has the fields of in with the values of c. A zero that c leaves out
// is unset; anything else that c leaves out is unknown to the Go type and
// stays.
func overlay(in, c any) any {
	switch t := in.(type) {
	case map[string]any:
		cm, ok := c.(map[string]any)
		if !ok {
			return in
		}
		out := make(map[string]any, len(t))
		for key, v := range t {
			cv, found := cm[key]
			switch {
			case v == nil:
			case found && cv != nil:
				out[key] = overlay(v, cv)
			case isZero(v):
				out[key] = unset{v}
			default:
				out[key] = v
			}
		}
		return out
	case []any:
		cl, ok := c.([]any)
		if !ok || len(cl) != len(t) {
			return in
		}
		out := make([]any, len(t))
		for i := range t {
			out[i] = overlay(t[i], cl[i])
		}
		return out
	}
	return c
}

// markZerosUnset marks the zeros of a wanted object of an unknown kind as unset, since controllers
// with Go types leave them out.
func markZerosUnset(in any) any {
	switch t := in.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for key, v := range t {
			if v == nil {
				continue
			}
			if isZero(v) {
				out[key] = unset{v}
				continue
			}
			out[key] = markZerosUnset(v)
			if isZero(out[key]) {
				out[key] = unset{out[key]} // it held nothing but nulls
			}
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i := range t {
			out[i] = markZerosUnset(t[i])
		}
		return out
	}
	return in
}

// withoutUnsetMarks is a tree without marks of unset.
func withoutUnsetMarks(in any) any {
	switch t := in.(type) {
	case unset:
		return t.value
	case map[string]any:
		for key, v := range t {
			t[key] = withoutUnsetMarks(v)
		}
	case []any:
		for i, v := range t {
			t[i] = withoutUnsetMarks(v)
		}
	}
	return in
}

// rule is how a list is merged.
type rule struct {
	merge bool   // entry by entry, or as a set; otherwise as a whole
	key   string // the field that identifies entries; empty for a set
}

// childMeta is the meta data of a field's own fields.
func childMeta(meta strategicpatch.LookupPatchMeta, key string) strategicpatch.LookupPatchMeta {
	if meta == nil {
		return nil
	}
	m, _, err := meta.LookupPatchMetadataForStruct(key)
	if err != nil {
		return nil
	}
	return m
}

// itemsOf is the meta data of a list's entries, and how the list is merged.
func itemsOf(meta strategicpatch.LookupPatchMeta, key string) (strategicpatch.LookupPatchMeta, rule) {
	if meta == nil {
		return nil, rule{}
	}
	m, p, err := meta.LookupPatchMetadataForSlice(key)
	if err != nil {
		return nil, rule{}
	}
	r := rule{key: p.GetPatchMergeKey()}
	for _, s := range p.GetPatchStrategies() {
		r.merge = r.merge || s == "merge"
	}
	return m, r
}
