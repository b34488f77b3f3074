package drift

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// unset is a wanted value that the API does not keep: it means the same as no
// value at all.
type unset struct{ value any }

// A difference is one field that is not as it is wanted.
type difference struct {
	path   fieldPath
	wanted any
	live   any // nil: missing
}

// differences are the findings of a comparer.
type differences struct {
	fields []difference
	short  []fieldPath // keyed lists that lack an entry
}

// comparer walks through a wanted and a live object side by side. Its methods return the
// live side of what differs.
type comparer struct {
	kind   kind
	owned  func(names []string) bool // by a subresource
	isKept func(names []string) bool // by the cluster, which prunes others; nil: all are
	found  *differences              // nil: they are not noted
}

// maps compares the fields that are wanted.
func (c comparer) maps(wanted, live map[string]any, at fieldPath, meta strategicpatch.LookupPatchMeta) (map[string]any, bool) {
	diff := map[string]any{}
	for key, w := range wanted {
		to := at.toField(key)
		names := to.fieldNames()
		if w == nil || c.kind.isExcluded(names) || c.owned(names) {
			continue
		}
		l, found := live[key]
		if d, differs := c.compareField(w, l, found, to, meta); differs {
			diff[key] = d
		}
	}
	return diff, len(diff) > 0
}

// compareField compares one field of a map. meta is that of the map.
func (c comparer) compareField(w, l any, found bool, at fieldPath, meta strategicpatch.LookupPatchMeta) (any, bool) {
	key := at[len(at)-1].name
	if isZero(withoutUnsetMark(w)) && c.kind.defaults(at.fieldNames()) {
		return nil, false
	}
	if u, ok := w.(unset); ok {
		if !found || l == nil || isZero(l) {
			return nil, false
		}
		w = u.value
	}
	if !found || l == nil {
		return nil, c.missingCounts(w, at)
	}
	switch w := w.(type) {
	case map[string]any:
		if lm, ok := l.(map[string]any); ok {
			d, differs := c.maps(w, lm, at, childMeta(meta, key))
			return d, differs
		}
	case []any:
		if ll, ok := l.([]any); ok {
			return c.lists(w, ll, at, meta)
		}
	default:
		if c.kind.equalValues(w, l, at.fieldNames()) {
			return nil, false
		}
	}
	c.addDifference(at, w, l)
	return l, true
}

// missingCounts judges a field that the live object lacks.
func (c comparer) missingCounts(w any, at fieldPath) (counts bool) {
	if !c.kind.typed && asksNothing(w) || c.isKept != nil && !c.isKept(at.fieldNames()) {
		return false
	}
	c.addDifference(at, w, nil)
	return true
}

// asksNothing reports whether a map asks for nothing.
func asksNothing(w any) bool {
	m, ok := w.(map[string]any)
	if !ok {
		_, ok := w.(unset)
		return ok
	}
	for _, v := range m {
		if !asksNothing(v) {
			return false
		}
	}
	return len(m) > 0
}

// addDifference keeps a difference.
func (c comparer) addDifference(at fieldPath, w, l any) {
	if c.found != nil {
		c.found.fields = append(c.found.fields, difference{path: slices.Clone(at), wanted: withoutUnsetMarks(w), live: l})
	}
}

// lists compares two lists by the rules of their kind: keyed lists item by
// item, sets by their members, all others as a whole.
func (c comparer) lists(w, l []any, at fieldPath, meta strategicpatch.LookupPatchMeta) (any, bool) {
	item, rule := itemsOf(meta, at[len(at)-1].name)
	if rule.merge && rule.key != "" {
		if keys, ok := keysOf(rule.key, w, l); ok {
			return c.keyed(w, l, keys, at, item)
		}
	} else if rule.merge {
		if subset(w, l) {
			return nil, false
		}
		c.addDifference(at, w, l)
		return l, true
	}
	if c.compareInOrder(w, l, at, item) {
		return nil, false
	}
	c.addDifference(at, w, l)
	return l, true
}

// compareInOrder compares two lists entry by entry, in order.
func (c comparer) compareInOrder(w, l []any, at fieldPath, meta strategicpatch.LookupPatchMeta) bool {
	if len(w) != len(l) {
		return false
	}
	c.found = nil // the list is one difference as a whole
	for i := range w {
		if c.itemDiffers(w[i], l[i], at, meta) {
			return false
		}
	}
	return true
}

// itemDiffers compares two entries of a list.
func (c comparer) itemDiffers(w, l any, at fieldPath, meta strategicpatch.LookupPatchMeta) bool {
	wm, ok := w.(map[string]any)
	if !ok {
		if wl, ok := w.([]any); ok {
			ll, ok := l.([]any)
			return !ok || !c.compareInOrder(wl, ll, at, meta)
		}
		return !c.kind.equalValues(w, l, at.fieldNames())
	}
	lm, ok := l.(map[string]any)
	if !ok {
		return true
	}
	_, differs := c.maps(wm, lm, at, meta)
	return differs
}

// keyed compares lists whose entries are identified by the fields keys. It ignores entries
// that only the live list has.
func (c comparer) keyed(w, l []any, keys []string, at fieldPath, meta strategicpatch.LookupPatchMeta) (any, bool) {
	byKey := map[string]map[string]any{}
	for _, e := range l {
		if m, ok := e.(map[string]any); ok {
			byKey[keyOf(m, keys)] = m
		}
	}
	var diff []any
	for _, e := range w {
		wm, ok := e.(map[string]any)
		if !ok {
			continue
		}
		entry, reported := map[string]any{}, map[string]any{}
		for _, k := range keys {
			if v, ok := wm[k]; ok {
				reported[k], entry[k] = withoutUnsetMark(v), withoutUnsetMark(v)
			} else if k == "protocol" {
				reported[k] = "TCP"
			}
		}
		live, found := byKey[keyOf(wm, keys)]
		to := at.toEntry(reported, live)
		if !found {
			entry["$patch"] = "delete"
			c.addDifference(to, wm, nil)
			c.addMissingEntry(at)
		} else if d, differs := c.maps(wm, live, to, meta); differs {
			maps.Copy(entry, d)
		} else {
			continue
		}
		diff = append(diff, entry)
	}
	return diff, len(diff) > 0
}

// addMissingEntry notes a keyed list that lacks an entry.
func (c comparer) addMissingEntry(at fieldPath) {
	if c.found != nil {
		c.found.short = append(c.found.short, slices.Clone(at))
	}
}

// keysOf returns the fields that identify the entries of both lists: the key of the list,
// with the protocol where ports need it. It returns false if no fields do.
func keysOf(key string, lists ...[]any) ([]string, bool) {
	for _, keys := range [][]string{{key}, {key, "protocol"}} {
		if slices.IndexFunc(lists, func(l []any) bool { return !hasUniqueKeys(l, keys) }) < 0 {
			return keys, true
		}
	}
	return nil, false
}

func hasUniqueKeys(list []any, keys []string) bool {
	seen := map[string]bool{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok || withoutUnsetMark(m[keys[0]]) == nil {
			return false
		}
		k := keyOf(m, keys)
		if seen[k] {
			return false
		}
		seen[k] = true
	}
	return true
}

// keyOf is the identity of an entry. A port without a protocol is TCP.
func keyOf(m map[string]any, keys []string) string {
	out := ""
	for _, k := range keys {
		v := withoutUnsetMark(m[k])
		if k == "protocol" && (v == nil || v == "") {
			v = "TCP"
		}
		out += fmt.Sprintf("%v/", v)
	}
	return out
}

// subset reports whether every member of w is in l.
func subset(w, l []any) bool {
	for _, e := range w {
		if slices.IndexFunc(l, func(o any) bool { return equalValues(e, o) }) < 0 {
			return false
		}
	}
	return true
}

// equalValues compares two values that are no maps of known fields.
func equalValues(w, l any) bool {
	w, l = withoutUnsetMark(w), withoutUnsetMark(l)
	if a, ok := toFloat(w); ok {
		b, ok := toFloat(l)
		return ok && a == b
	}
	return reflect.DeepEqual(w, l)
}

// withoutUnsetMark is a value without a mark of unset.
func withoutUnsetMark(v any) any {
	if u, ok := v.(unset); ok {
		return u.value
	}
	return v
}

func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

func isZero(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case string:
		return t == ""
	case bool:
		return !t
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	}
	n, ok := toFloat(v)
	return ok && n == 0
}
