package drift

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Field is one field of an object that differs.
type Field struct {
	// Pointer is where it is, as a JSON pointer (RFC 6901).
	Pointer string
	// Value is what the patch has there, as JSON: what is on the cluster, or, in a patch
	// of an agent of rancher/fleet, what is wanted; null: nothing.
	Value string
	// List reports that the field is a list: that is compared as a whole here,
	// since a pointer into a list names a place and not an entry.
	List bool
}

// ErrPatch is a patch that is none.
var ErrPatch = errors.New("the reported difference is no JSON object")

// Fields returns the fields that the patch of a ModifiedStatus names, in order.
func Fields(patch string) ([]Field, error) {
	if patch == "" {
		return nil, nil
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(patch), &tree); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	var out []Field
	err := walkFields(tree, "", func(f Field) { out = append(out, f) })
	return out, err
}

func walkFields(tree map[string]any, at string, found func(Field)) error {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		pointer := at + "/" + escape.Replace(key)
		if below, ok := tree[key].(map[string]any); ok && len(below) > 0 {
			if err := walkFields(below, pointer, found); err != nil {
				return err
			}
			continue
		}
		value, err := json.Marshal(tree[key])
		if err != nil {
			return fmt.Errorf("read difference: %w", err)
		}
		_, list := tree[key].([]any)
		found(Field{Pointer: pointer, Value: string(value), List: list})
	}
	return nil
}

// A Suggestion is how differences can be ignored.
type Suggestion struct {
	// Patches are all comparePatches of the bundle: those that it has, and the
	// new ones.
	Patches []fleet.ComparePatch
	// Wide are the lists that are ignored as a whole, "<object>: <pointer>",
	// since a part of a list cannot be named.
	Wide []string
	// Left are the differences that no comparePatch can ignore, in words.
	Left []string
}

// SuggestOptions say what may be ignored.
type SuggestOptions struct {
	// Missing ignores objects that are gone, too.
	Missing bool
}

// Suggest returns comparePatches that ignore all of the modified objects: what a user
// writes into fleet.yaml to say that the differences do not matter. existing are the
// comparePatches that the bundle has; Suggest does not change them.
func Suggest(modified []fleet.ModifiedStatus, existing []fleet.ComparePatch, o SuggestOptions) Suggestion {
	out := Suggestion{Patches: slices.Clone(existing)}
	for _, m := range sortedModified(modified) {
		fields, err := Fields(m.Patch)
		switch {
		case m.Create && m.Exist:
			out.Left = append(out.Left, m.String()+"; helm.takeOwnership takes it over")
		case m.Create && o.Missing:
			out.merge(m, nil, []fleet.Operation{{Op: "ignore"}})
		case m.Create:
			out.Left = append(out.Left, m.String())
		case m.Delete:
			out.Left = append(out.Left, m.String())
		case err != nil:
			out.Left = append(out.Left, objectName(m)+": "+err.Error())
		default:
			out.merge(m, out.pointers(m, fields), removals(fields))
		}
	}
	return out
}

func sortedModified(list []fleet.ModifiedStatus) []fleet.ModifiedStatus {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b fleet.ModifiedStatus) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// objectName names an object for people.
func objectName(m fleet.ModifiedStatus) string {
	if m.Namespace == "" {
		return m.Kind + " " + m.Name
	}
	return m.Kind + " " + m.Namespace + "/" + m.Name
}

// pointers are those of all fields. What a manifest of a Secret may have as
// stringData is reported as data, and is named both ways.
func (s *Suggestion) pointers(m fleet.ModifiedStatus, fields []Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Pointer)
		if key, ok := strings.CutPrefix(f.Pointer, "/data/"); ok && m.Kind == "Secret" && m.APIVersion == "v1" {
			out = append(out, "/stringData/"+key)
		}
		if f.List {
			s.Wide = append(s.Wide, objectName(m)+": "+f.Pointer)
		}
	}
	return out
}

// removals are the operations that mean the same as pointers to the fields: Rancher
// Fleet v0.16 prints both (bundlediff --fleet-yaml).
func removals(fields []Field) []fleet.Operation {
	var out []fleet.Operation
	for _, f := range fields {
		out = append(out, fleet.Operation{Op: "remove", Path: f.Pointer})
	}
	return out
}

// merge adds to the comparePatch of an object, or makes one.
func (s *Suggestion) merge(m fleet.ModifiedStatus, pointers []string, operations []fleet.Operation) {
	i := slices.IndexFunc(s.Patches, func(p fleet.ComparePatch) bool {
		return p.APIVersion == m.APIVersion && p.Kind == m.Kind && p.Namespace == m.Namespace && p.Name == m.Name
	})
	if i < 0 {
		i = len(s.Patches)
		s.Patches = append(s.Patches, fleet.ComparePatch{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name})
	}
	p := &s.Patches[i]
	p.JsonPointers, p.Operations = slices.Clip(p.JsonPointers), slices.Clip(p.Operations) // existing ones are not ours to change
	for _, pointer := range pointers {
		if !slices.Contains(p.JsonPointers, pointer) {
			p.JsonPointers = append(p.JsonPointers, pointer)
		}
	}
	for _, op := range operations {
		if !slices.Contains(p.Operations, op) {
			p.Operations = append(p.Operations, op)
		}
	}
}

// snippet is a part of fleet.yaml, its keys in the order in which people write
// them.
type snippet struct {
	Diff fleet.DiffOptions `json:"diff"`
}

// YAML returns the suggestion as the part "diff" of fleet.yaml, in the place of the one
// that is there. It is empty where there is nothing to ignore.
func (s Suggestion) YAML() (string, error) {
	if len(s.Patches) == 0 {
		return "", nil
	}
	text, err := yaml.Marshal(snippet{fleet.DiffOptions{ComparePatches: s.Patches}})
	if err != nil {
		return "", fmt.Errorf("write comparePatches: %w", err)
	}
	return string(text), nil
}
