package drift

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writer is one entry of managedFields.
type writer struct {
	name   string
	time   metav1.Time
	fields map[string]any // FieldsV1
}

// writers are those of one object.
type writers []writer

func writersOf(o *unstructured.Unstructured) writers {
	var out writers
	for _, f := range o.GetManagedFields() {
		w := writer{name: f.Manager}
		if f.Time != nil {
			w.time = *f.Time
		}
		if f.FieldsV1 != nil && json.Unmarshal(f.FieldsV1.GetRawBytes(), &w.fields) == nil {
			out = append(out, w)
		}
	}
	return out
}

// writerOf returns the field manager that set the value that was found, and when it wrote the
// object last. A missing field has no owner: managedFields do not say what removed it.
func (all writers) writerOf(d difference) (string, metav1.Time) {
	if d.live == nil {
		return "", metav1.Time{}
	}
	var best writer
	for _, w := range all {
		if !ownsField(w.fields, d.path) {
			continue
		}
		newer := best.time.Before(&w.time)
		if best.name == "" || newer || best.time.Equal(&w.time) && best.name == fleet.FieldManagerRelease {
			best = w
		}
	}
	return best.name, best.time
}

// ownsField reports whether a set of managed fields has a field, something in it, or
// something that it is a part of.
func ownsField(set map[string]any, at fieldPath) bool {
	for _, s := range at {
		next, ok := s.managedPart(set)
		if !ok {
			return len(set) == 0
		}
		set = next
	}
	return true
}

// managedPart is the part of a set of managed fields that a step leads to.
func (s pathStep) managedPart(set map[string]any) (map[string]any, bool) {
	if s.keys == nil {
		next, ok := set["f:"+s.name].(map[string]any)
		return next, ok
	}
	for key, v := range set {
		text, ok := strings.CutPrefix(key, "k:")
		if !ok {
			continue
		}
		reported := map[string]any{}
		if json.Unmarshal([]byte(text), &reported) != nil || !s.matchesKeys(reported) {
			continue
		}
		next, ok := v.(map[string]any)
		return next, ok
	}
	return nil, false
}

// matchesKeys reports whether the keys by which the API server identifies entries are those of
// this entry. They may be more than needed.
func (s pathStep) matchesKeys(reported map[string]any) bool {
	for k, v := range reported {
		have, ok := s.live[k]
		if !ok {
			have, ok = s.keys[k]
		}
		if ok && !equalValues(v, have) {
			return false
		}
	}
	return len(reported) > 0
}
