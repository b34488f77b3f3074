package drift

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pathStep is one step on the way to a field: to a field of a map, or to an entry of
// a keyed list.
type pathStep struct {
	name string
	keys map[string]any // what identifies the entry; nil for a field
	live map[string]any // the entry as it is; nil if it is missing
}

// fieldPath is the way to a field.
type fieldPath []pathStep

func (p fieldPath) toField(name string) fieldPath {
	return append(slices.Clip(p), pathStep{name: name})
}

func (p fieldPath) toEntry(keys, live map[string]any) fieldPath {
	return append(slices.Clip(p), pathStep{keys: keys, live: live})
}

// fieldNames are the fields on the way, without the entries of lists.
func (p fieldPath) fieldNames() []string {
	out := make([]string, 0, len(p))
	for _, s := range p {
		if s.keys == nil {
			out = append(out, s.name)
		}
	}
	return out
}

// plainName matches names that need no quotes in a path.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// String returns the path for people: spec.template.spec.containers[name=web].image,
// data["a.txt"].
func (p fieldPath) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.keys != nil:
			keys := make([]string, 0, len(s.keys))
			for _, k := range slices.Sorted(maps.Keys(s.keys)) {
				keys = append(keys, fmt.Sprintf("%s=%v", k, s.keys[k]))
			}
			fmt.Fprintf(&b, "[%s]", strings.Join(keys, ","))
		case !plainName.MatchString(s.name):
			fmt.Fprintf(&b, "[%q]", s.name)
		case b.Len() == 0:
			b.WriteString(s.name)
		default:
			b.WriteString("." + s.name)
		}
	}
	return b.String()
}

// setValue sets the field that the path leads to, in a tree that may lack what is on
// the way.
func (p fieldPath) setValue(tree map[string]any, value any) {
	if len(p) == 0 {
		return
	}
	name := p[0].name
	if len(p) == 1 {
		tree[name] = value
		return
	}
	if p[1].keys == nil {
		next, ok := tree[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[name] = next
		}
		p[1:].setValue(next, value)
		return
	}
	list, _ := tree[name].([]any)
	at := slices.IndexFunc(list, p[1].isEntry)
	if len(p) == 2 {
		if at < 0 {
			list, at = append(slices.Clip(list), nil), len(list)
		}
		list[at] = value
		tree[name] = list
		return
	}
	if at < 0 {
		list, at = append(slices.Clip(list), maps.Clone(p[1].keys)), len(list)
	}
	tree[name] = list
	if entry, ok := list[at].(map[string]any); ok {
		p[2:].setValue(entry, value)
	}
}

// isEntry reports whether an entry of a list is the one that is meant.
func (s pathStep) isEntry(e any) bool {
	m, ok := e.(map[string]any)
	if !ok {
		return false
	}
	keys := slices.Sorted(maps.Keys(s.keys))
	return keyOf(m, keys) == keyOf(s.keys, keys)
}
