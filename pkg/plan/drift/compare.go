package drift

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// unset is a wanted value that the API does not keep: it means the same as no
// value at all.
type unset struct{ value any }

// comparer walks through a wanted and a live object side by side. What it
// returns is the live side of what differs.
type comparer struct {
	kind  kind
	owned func(path []string) bool // by a subresource
}

// maps compares the fields that are wanted.
func (c comparer) maps(wanted, live map[string]any, path []string, meta strategicpatch.LookupPatchMeta) (map[string]any, bool) {
	diff := map[string]any{}
	for key, w := range wanted {
		at := append(slices.Clip(path), key)
		if w == nil || c.kind.excluded(at) {
			continue
		}
		l, found := live[key]
		if d, differs := c.field(w, l, found, at, meta); differs && !c.owned(at) {
			diff[key] = d
		}
	}
	return diff, len(diff) > 0
}

// field compares one field of a map. meta is that of the map.
func (c comparer) field(w, l any, found bool, path []string, meta strategicpatch.LookupPatchMeta) (any, bool) {
	key := path[len(path)-1]
	if u, ok := w.(unset); ok {
		if !found || l == nil || isZero(l) {
			return nil, false
		}
		w = u.value
	}
	if !found || l == nil {
		return nil, true
	}
	switch w := w.(type) {
	case map[string]any:
		if lm, ok := l.(map[string]any); ok {
			d, differs := c.maps(w, lm, path, below(meta, key))
			return d, differs
		}
		return l, true
	case []any:
		if ll, ok := l.([]any); ok {
			return c.lists(w, ll, path, meta)
		}
		return l, true
	}
	return l, !same(w, l)
}

// lists compares two lists by the rules of their kind: keyed lists item by
// item, sets by their members, all others as a whole.
func (c comparer) lists(w, l []any, path []string, meta strategicpatch.LookupPatchMeta) (any, bool) {
	item, rule := itemsOf(meta, path[len(path)-1])
	if rule.merge && rule.key != "" {
		if keys, ok := keysOf(rule.key, w, l); ok {
			return c.keyed(w, l, keys, path, item)
		}
	} else if rule.merge {
		return l, !subset(w, l)
	}
	if len(w) != len(l) {
		return l, true
	}
	for i := range w {
		if _, differs := c.item(w[i], l[i], path, item); differs {
			return l, true
		}
	}
	return nil, false
}

// item compares two entries of a list.
func (c comparer) item(w, l any, path []string, meta strategicpatch.LookupPatchMeta) (map[string]any, bool) {
	wm, ok := w.(map[string]any)
	if !ok {
		return nil, !same(w, l)
	}
	lm, ok := l.(map[string]any)
	if !ok {
		return nil, true
	}
	return c.maps(wm, lm, path, meta)
}

// keyed compares lists whose entries are told apart by the fields keys.
// Entries that only the live list has do not count.
func (c comparer) keyed(w, l []any, keys []string, path []string, meta strategicpatch.LookupPatchMeta) (any, bool) {
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
		entry := map[string]any{}
		live, found := byKey[keyOf(wm, keys)]
		if !found {
			entry["$patch"] = "delete"
		} else if d, differs := c.maps(wm, live, path, meta); differs {
			entry = d
		} else {
			continue
		}
		for _, k := range keys {
			if v, ok := wm[k]; ok {
				entry[k] = plain(v)
			}
		}
		diff = append(diff, entry)
	}
	return diff, len(diff) > 0
}

// keysOf are the fields that tell the entries of both lists apart: the key of
// the list, with the protocol where ports need it. It is false if the entries
// cannot be told apart.
func keysOf(key string, lists ...[]any) ([]string, bool) {
	for _, keys := range [][]string{{key}, {key, "protocol"}} {
		if slices.IndexFunc(lists, func(l []any) bool { return !unique(l, keys) }) < 0 {
			return keys, true
		}
	}
	return nil, false
}

func unique(list []any, keys []string) bool {
	seen := map[string]bool{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok || plain(m[keys[0]]) == nil {
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
		v := plain(m[k])
		if v == nil && k == "protocol" {
			v = "TCP"
		}
		out += fmt.Sprintf("%v/", v)
	}
	return out
}

// subset tells whether every member of w is in l.
func subset(w, l []any) bool {
	for _, e := range w {
		if slices.IndexFunc(l, func(o any) bool { return same(e, o) }) < 0 {
			return false
		}
	}
	return true
}

// same compares two values that are no maps of known fields.
func same(w, l any) bool {
	w, l = plain(w), plain(l)
	if a, ok := number(w); ok {
		b, ok := number(l)
		return ok && a == b
	}
	return reflect.DeepEqual(w, l)
}

// plain is a value without marks of unset.
func plain(v any) any {
	if u, ok := v.(unset); ok {
		return u.value
	}
	return v
}

func number(v any) (float64, bool) {
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
	n, ok := number(v)
	return ok && n == 0
}
