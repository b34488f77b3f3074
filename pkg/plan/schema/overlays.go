package schema

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// overlays names the file that an object of plain manifests comes from with its overlays, and
// the patches in overlays that change it, in their order.
func (b Bundle) overlays(r Rendered) (file string, patches []string) {
	file = r.File
	if kustomization(r.File) {
		return file, nil
	}
	for _, overlay := range r.Overlays {
		dir := "overlays/" + strings.Trim(overlay, "/")
		name := path.Join(dir, r.File)
		if _, replaced := b.Files[name]; replaced {
			file, patches = name, nil
		}
		var own []string
		for name := range b.Files {
			rest, ok := strings.CutPrefix(name, dir+"/")
			if folder, base := path.Split(rest); ok && folder+strings.Replace(base, "_patch.", ".", 1) == r.File && rest != r.File {
				own = append(own, name)
			}
		}
		slices.Sort(own)
		patches = append(patches, own...)
	}
	return file, patches
}

// inFiles is the place of a fault in the first of some files that has it, or in a patch of
// these which changes the value; the name is empty where none has it.
func (b *bundleCheck) inFiles(names, patches []string, object map[string]any, fault Fault) (name string, line, column int) {
	patch, patchLine, patchColumn := b.inPatches(patches, object, fault)
	for _, name := range names {
		line, column, ok := b.inFile(name, object, fault)
		if ok && (patch == "" || b.unchanged(name, object, fault.Path)) {
			return name, line, column
		}
		if ok {
			break
		}
	}
	return patch, patchLine, patchColumn
}

// inPatches is the place of a fault in the last patch of an object that has it.
func (b *bundleCheck) inPatches(patches []string, object map[string]any, fault Fault) (file string, line, column int) {
	for _, name := range slices.Backward(patches) {
		for _, root := range b.documents(name) {
			if line, column, ok := inPatch(root, object, fault); ok {
				return name, line, column
			}
		}
	}
	return "", 0, 0
}

// inPatch returns the place of a fault of an object in a patch. A list is a JSON patch, in
// which the last operation that sets the value decides.
func inPatch(root *yaml.Node, object map[string]any, fault Fault) (line, column int, ok bool) {
	if root.Kind != yaml.SequenceNode {
		return position.Find(root, fault.Key, merged(root, object, fault.Path)...)
	}
	for _, operation := range slices.Backward(root.Content) {
		to, _ := position.Text(operation, "path")
		keys := position.Pointer(to)
		value := position.Value(operation, "value")
		if value == nil || len(keys) > len(fault.Path) || !slices.EqualFunc(keys, fault.Path[:len(keys)], leadsTo) {
			continue
		}
		if len(keys) == len(fault.Path) && fault.Key {
			return position.Find(operation, false, "path")
		}
		if line, column, ok = position.Find(value, fault.Key, fault.Path[len(keys):]...); ok {
			return line, column, true
		}
	}
	return 0, 0, false
}

// leadsTo reports whether a key of a JSON pointer may be a key of a path: - is the place
// behind the last entry of a list.
func leadsTo(pointed, key any) bool {
	_, index := key.(int)
	return pointed == key || pointed == "-" && index
}

// merged are the keys that lead to a value of an object in a strategic merge patch: an entry
// of a list there is the first whose texts and numbers the object's entry has.
func merged(root *yaml.Node, object map[string]any, keys []any) []any {
	out := slices.Clone(keys)
	var value any = object
	for i, key := range keys {
		if n, ok := key.(int); ok {
			list, _ := value.([]any)
			if n >= len(list) || root == nil {
				return out
			}
			if at := slices.IndexFunc(root.Content, func(e *yaml.Node) bool { return isWithin(e, list[n]) }); at >= 0 {
				out[i] = at
			}
		}
		value = valueBelow(value, key)
		root = position.Value(root, out[i])
	}
	return out
}

// isWithin reports whether an entry of a patch, a mapping, says nothing else in texts and
// numbers than a value.
func isWithin(entry *yaml.Node, value any) bool {
	mapping, ok := value.(map[string]any)
	if !ok || entry.Kind != yaml.MappingNode {
		return false
	}
	for _, key := range position.Names(entry) {
		text, single := position.Text(entry, key.Value)
		if single && text != fmt.Sprint(mapping[key.Value]) {
			return false
		}
	}
	return true
}

// valueBelow returns the value below a key; nil if there is none.
func valueBelow(value, key any) any {
	switch k := key.(type) {
	case int:
		if list, ok := value.([]any); ok && k >= 0 && k < len(list) {
			return list[k]
		}
	case string:
		if mapping, ok := value.(map[string]any); ok {
			return mapping[k]
		}
	}
	return nil
}

// unchanged reports whether patches leave the value of an object to which keys lead as it is
// in a file. It is true also where the file has no single text or number there.
func (b *bundleCheck) unchanged(name string, object map[string]any, keys []any) bool {
	var value any = object
	for _, key := range keys {
		value = valueBelow(value, key)
	}
	for _, root := range b.documents(name) {
		if text, single := position.Text(root, keys...); single && isSameObject(root, object) {
			return text == fmt.Sprint(value)
		}
	}
	return true
}
