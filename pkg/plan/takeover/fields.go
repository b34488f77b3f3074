package takeover

import (
	"encoding/json"
	"reflect"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// equalJSON reports whether two parts of an object are written alike.
func equalJSON(a, b any) bool { return reflect.DeepEqual(asJSON(a), asJSON(b)) }

// asJSON is a part of an object as JSON has it: what is empty is not there.
func asJSON(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return pruned(out)
}

// pruned is a value without what is empty.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key] = pruned(inner); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

// changedFields are the fields that differ between two sets of options, those of Helm
// one by one, sorted.
func changedFields(a, b fleet.BundleDeploymentOptions) []string {
	x, _ := asJSON(a).(map[string]any)
	y, _ := asJSON(b).(map[string]any)
	out := fieldsOf("", x, y, func(key string) bool { return key == "helm" })
	slices.Sort(out)
	return out
}

func fieldsOf(prefix string, x, y map[string]any, open func(string) bool) []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range []map[string]any{x, y} {
		for key := range m {
			if seen[key] || reflect.DeepEqual(x[key], y[key]) {
				continue
			}
			seen[key] = true
			inX, okX := x[key].(map[string]any)
			inY, okY := y[key].(map[string]any)
			if open(key) && (okX || okY) {
				out = append(out, fieldsOf(prefix+key+".", inX, inY, func(string) bool { return false })...)
				continue
			}
			out = append(out, prefix+key)
		}
	}
	return out
}
