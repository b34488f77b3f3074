package drift

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// opIgnore is the operation that leaves missing objects out of the report.
const opIgnore = "ignore"

// MayBeMissing reports whether it is no drift that an object is missing: it is a
// Job that cleans up after itself, or a comparePatch ignores it: one of its kind
// and namespace, with its name, a matching expression, or no name.
func MayBeMissing(o *unstructured.Unstructured, patches []fleet.ComparePatch) bool {
	if cleansUp(o) {
		return true
	}
	for _, p := range patches {
		if p.Kind != o.GetKind() || p.APIVersion != o.GetAPIVersion() || p.Namespace != o.GetNamespace() {
			continue
		}
		for _, op := range p.Operations {
			if op.Op == opIgnore && nameMatches(p.Name, o.GetName()) {
				return true
			}
		}
	}
	return false
}

func nameMatches(pattern, name string) bool {
	if pattern == "" || pattern == name {
		return true
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(name)
}

// applyPatches applies comparePatches to copies of both sides. jsonPointers
// apply to objects whose group, kind, namespace and name match as patterns,
// operations to exactly the one that is named.
func applyPatches(wanted, live *unstructured.Unstructured, patches []fleet.ComparePatch) (w, l *unstructured.Unstructured) {
	w, l = wanted, live
	copied := false
	change := func(f func(map[string]any)) {
		if !copied {
			w, l, copied = wanted.DeepCopy(), live.DeepCopy(), true
		}
		f(w.Object)
		f(l.Object)
	}
	for _, p := range patches {
		if matchesObject(p, wanted) {
			for _, pointer := range p.JsonPointers {
				change(func(o map[string]any) { applyOperation(o, steps(pointer), nil, opRemove) })
			}
		}
		if p.APIVersion != wanted.GetAPIVersion() || p.Kind != wanted.GetKind() ||
			p.Namespace != wanted.GetNamespace() || p.Name != wanted.GetName() {
			continue
		}
		for _, op := range p.Operations {
			if op.Op != opIgnore {
				change(func(o map[string]any) { applyOperation(o, steps(op.Path), op.Value, op.Op) })
			}
		}
	}
	return w, l
}

// matchesObject reports whether a comparePatch names an object, with * and ? as in file
// names. What it leaves empty matches everything.
func matchesObject(p fleet.ComparePatch, o *unstructured.Unstructured) bool {
	gv, err := schema.ParseGroupVersion(p.APIVersion)
	if err != nil {
		return false
	}
	group := o.GroupVersionKind().Group
	sameGroup := p.APIVersion == "" || gv.Group == group || gv.Group != "" && glob(gv.Group, group)
	return sameGroup && glob(p.Kind, o.GetKind()) && glob(p.Namespace, o.GetNamespace()) && glob(p.Name, o.GetName())
}

func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, s)
	return err == nil && ok
}

// Operations of JSON patch that work on one path.
const (
	opRemove  = "remove"
	opAdd     = "add"
	opReplace = "replace"
)

// steps takes a JSON pointer apart.
func steps(pointer string) []string {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	out := strings.Split(pointer[1:], "/")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i := range out {
		out[i] = unescape.Replace(out[i])
	}
	return out
}

// applyOperation does one operation in a tree and returns what the node is now. An
// operation on a path that does not exist does nothing.
func applyOperation(node any, at []string, value any, op string) any {
	if len(at) == 0 {
		return node
	}
	switch t := node.(type) {
	case map[string]any:
		child, found := t[at[0]]
		switch {
		case len(at) > 1 && found:
			t[at[0]] = applyOperation(child, at[1:], value, op)
		case len(at) > 1:
		case op == opRemove:
			delete(t, at[0])
		case op == opAdd, op == opReplace && found:
			t[at[0]] = value
		}
		return t
	case []any:
		return editList(t, at, value, op)
	}
	return node
}

func editList(list []any, at []string, value any, op string) any {
	if at[0] == "-" && len(at) == 1 && op == opAdd {
		return append(list, value)
	}
	i, err := strconv.Atoi(at[0])
	if err != nil || i < 0 || i >= len(list) {
		return list
	}
	switch {
	case len(at) > 1:
		list[i] = applyOperation(list[i], at[1:], value, op)
	case op == opRemove:
		return append(append([]any(nil), list[:i]...), list[i+1:]...)
	case op == opReplace:
		list[i] = value
	case op == opAdd:
		return append(append(append([]any(nil), list[:i]...), value), list[i:]...)
	}
	return list
}

// withoutStringData is a Secret as the API server keeps it. Other objects are
// returned as they are.
func withoutStringData(k kind, in map[string]any) map[string]any {
	texts, ok := in["stringData"].(map[string]any)
	if !ok || k.gvk.Group != "" || k.gvk.Kind != "Secret" {
		return in
	}
	out := maps.Clone(in)
	delete(out, "stringData")
	data := map[string]any{}
	if was, ok := in["data"].(map[string]any); ok {
		data = maps.Clone(was)
	}
	for key, v := range texts {
		if s, ok := v.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
	out["data"] = data
	return out
}

// ownedBySubresource returns a function that reports whether the present owner of a field
// wrote it through the scale or the status subresource: an autoscaler, or a controller.
func ownedBySubresource(live *unstructured.Unstructured) func(path []string) bool {
	var sets []map[string]any
	for _, f := range live.GetManagedFields() {
		if f.Subresource != "scale" && f.Subresource != "status" || f.FieldsV1 == nil {
			continue
		}
		set := map[string]any{}
		if err := json.Unmarshal(f.FieldsV1.GetRawBytes(), &set); err == nil {
			sets = append(sets, set)
		}
	}
	return func(path []string) bool {
		for _, set := range sets {
			if contains(set, path) {
				return true
			}
		}
		return false
	}
}

// contains reports whether a set of managed fields has a field as a leaf.
func contains(set map[string]any, path []string) bool {
	for _, step := range path {
		next, ok := set["f:"+step].(map[string]any)
		if !ok {
			return false
		}
		set = next
	}
	_, partly := set["."]
	return len(set) == 0 || partly && len(set) == 1
}
