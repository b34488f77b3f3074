package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Restore returns what makes a live object as it was deployed again, or nil if nothing
// differs. It holds only what is drift: fields that others own by design, and those that
// comparePatches name, stay as they are.
//
// Without whole it returns the part of the object that changes, for a patch. With whole it
// returns the object in full, for a replacement; there a list that lacks an entry holds
// only the wanted entries.
func Restore(wanted, live *unstructured.Unstructured, patches []fleet.ComparePatch, whole bool) *unstructured.Unstructured {
	_, found := differenceAndFields(wanted, live, patches, nil)
	if len(found.fields) == 0 {
		return nil
	}
	out := live.DeepCopy()
	if !whole {
		out = &unstructured.Unstructured{Object: map[string]any{}}
		out.SetGroupVersionKind(live.GroupVersionKind())
		out.SetNamespace(live.GetNamespace())
		out.SetName(live.GetName())
	}
	for _, d := range found.fields {
		d.path.setValue(out.Object, runtime.DeepCopyJSONValue(d.wanted))
	}
	if !whole {
		return out
	}
	for _, at := range found.short {
		list, ok := at.get(out.Object).([]any)
		theirs, known := at.get(wanted.Object).([]any)
		if ok && known {
			at.setValue(out.Object, slices.DeleteFunc(list, func(e any) bool { return !listed(theirs, e, at, found.fields) }))
		}
	}
	return out
}

// get is the value that the path leads to, nil if there is none.
func (p fieldPath) get(tree map[string]any) any {
	var at any = tree
	for _, s := range p {
		switch t := at.(type) {
		case map[string]any:
			at = t[s.name]
		case []any:
			i := slices.IndexFunc(t, s.isEntry)
			if s.keys == nil || i < 0 {
				return nil
			}
			at = t[i]
		default:
			return nil
		}
	}
	return at
}

// listed reports whether an entry is one of the wanted ones, by the keys that identify the
// entries of this list.
func listed(theirs []any, entry any, list fieldPath, fields []difference) bool {
	m, ok := entry.(map[string]any)
	if !ok {
		return true
	}
	var keys []string
	for _, d := range fields {
		if len(d.path) > len(list) && d.path[:len(list)].String() == list.String() && d.path[len(list)].keys != nil {
			for k := range d.path[len(list)].keys {
				keys = append(keys, k)
			}
			break
		}
	}
	slices.Sort(keys)
	return slices.ContainsFunc(theirs, func(w any) bool {
		wm, ok := w.(map[string]any)
		return ok && keyOf(wm, keys) == keyOf(m, keys)
	})
}
