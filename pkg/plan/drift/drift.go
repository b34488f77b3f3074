// Package drift finds what was deployed and is no longer so.
//
// A field counts if the release's manifest sets it to something other than
// null and its live value differs in meaning: quantities, numbers and the
// order of keyed lists are compared as Kubernetes understands them. Fields
// that the manifest does not set never count, whoever set them.
//
// It does not count what belongs to others by design: fields that the scale or
// the status subresource owns, certificate authorities that controllers put
// in, the rules of aggregated ClusterRoles, lists of tokens, finalizers, and
// what a comparePatch names.
package drift

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Expected is what every object of a release must bear to be the release's.
type Expected struct {
	// SetHash is the value of the label objectset.rio.cattle.io/hash. Empty:
	// ownership is not looked at.
	SetHash string
	// Patches say what is not compared.
	Patches []fleet.ComparePatch
	// Hide takes out of a text what must not be shown. Nil: nothing.
	Hide func(string) string
}

// Compare finds out whether an object is as it was deployed. wanted is from
// the release's manifest, with its namespace set; live is nil if the object is
// missing. Neither is changed. The status says how they differ; values of
// Secrets are not in it.
func (e Expected) Compare(wanted, live *unstructured.Unstructured) (fleet.ModifiedStatus, bool) {
	out := fleet.ModifiedStatus{
		Kind:       wanted.GetKind(),
		APIVersion: wanted.GetAPIVersion(),
		Namespace:  wanted.GetNamespace(),
		Name:       wanted.GetName(),
	}
	if live == nil {
		out.Create = true
		return out, !e.mayBeMissing(wanted)
	}
	if e.SetHash != "" && live.GetLabels()[fleet.LabelObjectSetHash] != e.SetHash {
		out.Create, out.Exist = true, true
		return out, true
	}
	diff := Difference(wanted, live, e.Patches)
	if diff == nil {
		return fleet.ModifiedStatus{}, false
	}
	out.Patch = e.text(diff)
	return out, true
}

// Difference is what a live object has in the fields that are wanted
// otherwise, as a patch from the wanted state to the live one: null stands for
// a field that is missing, and {"$patch":"delete"} for an entry of a keyed list
// that is missing. It is nil if nothing differs. Values of Secrets are hidden.
func Difference(wanted, live *unstructured.Unstructured, patches []fleet.ComparePatch) map[string]any {
	w, l := applyPatches(wanted, live, patches)
	kind := kindOf(w)
	c := comparer{kind: kind, owned: ownedBySubresource(live)}
	diff, differs := c.maps(kind.normal(w.Object), kind.normalLive(l.Object), nil, kind.meta)
	if !differs {
		return nil
	}
	if isSecret(wanted) {
		hide(diff)
	}
	return diff
}

// text writes a patch without what must not be shown, and with long values
// cut.
func (e Expected) text(diff map[string]any) string {
	data, err := json.Marshal(e.cut(diff))
	if err != nil {
		return "{}"
	}
	return string(data)
}

// longest is how many characters of a value are shown.
const longest = 100

// cut is a copy of a patch in which strings are made fit to be shown.
func (e Expected) cut(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, child := range t {
			out[k] = e.cut(child)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, child := range t {
			out[i] = e.cut(child)
		}
		return out
	case string:
		if e.Hide != nil {
			t = e.Hide(t)
		}
		if r := []rune(t); len(r) > longest {
			return string(r[:longest]) + "…"
		}
		return t
	}
	return v
}

// hidden stands in the place of what a Secret holds.
const hidden = "(hidden)"

func isSecret(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Secret" && o.GetAPIVersion() == "v1"
}

// hide replaces the values in the patch of a Secret.
func hide(diff map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		values, ok := diff[field].(map[string]any)
		if !ok {
			if diff[field] != nil {
				diff[field] = hidden
			}
			continue
		}
		for k, v := range values {
			if v != nil {
				values[k] = hidden
			}
		}
	}
	metadata, ok := diff["metadata"].(map[string]any)
	if !ok {
		return
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return
	}
	for k, v := range annotations {
		if v != nil {
			annotations[k] = hidden // kubectl keeps whole objects in one
		}
	}
}
