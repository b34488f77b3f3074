package helm

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// An UnmatchedPatch is a patch of a kustomization whose target matches no resource, or an
// entry of its images that no resource has, so that it changes nothing.
type UnmatchedPatch struct {
	Place
	// Hint says what the target may have meant, or which resources there are.
	Hint string
}

// markField begins the fields that mark an object as one that a patch is for.
const markField = "fleetPatch"

// maxListed is how many resources a hint lists.
const maxListed = 5

// A probe finds out which patches of kustomizations match something: it puts one
// before each that marks the objects of the same target, and builds.
type probe struct {
	fs      filesys.FileSystem
	patches []probedPatch
	names   []resourceName // of the resources in files
}

// A probedPatch is an entry of patches or patchesJson6902.
type probedPatch struct {
	file   string // of the kustomization, in the bundle
	field  string
	index  int
	target types.Selector
}

// A resourceName is kind and name of a resource.
type resourceName struct{ kind, name string }

func (n resourceName) String() string { return printable.Line(n.kind + " " + n.name) }

// unmatchedPatches are the patches and images of a kustomization that can be built, and of those
// that it builds on, whose target matches no resource. rendered is what the chart of
// the bundle rendered.
func unmatchedPatches(p bundleFiles, rendered []renderedObject) []UnmatchedPatch {
	fs, dir, err := kustomizeFiles(p, rendered)
	if err != nil {
		return nil
	}
	g := newGuard(fs)
	if g.kustomization(dir, false) != nil {
		return nil
	}
	pr := &probe{fs: fs}
	for _, o := range rendered {
		pr.names = append(pr.names, resourceName{o.GetKind(), o.GetName()})
	}
	var dirs []string
	for _, key := range slices.Sorted(maps.Keys(g.seen)) {
		if dir, ok := strings.CutPrefix(key, "false "); ok {
			dirs = append(dirs, dir)
		}
	}
	var out []UnmatchedPatch
	for _, dir := range dirs {
		out = append(out, pr.images(dir, p.files)...)
	}
	for _, dir := range dirs {
		pr.addMarks(dir)
	}
	if len(pr.patches) == 0 {
		return out
	}
	result, err := build(fs, dir)
	if err != nil {
		return out // a patch relies on what the marks change
	}
	matched := map[string]bool{}
	for _, r := range result.Resources() {
		fields, err := r.Map()
		if err != nil {
			return out
		}
		for field := range fields {
			matched[field] = true
		}
	}
	for i, patch := range pr.patches {
		if !matched[markOf(i)] {
			out = append(out, pr.unmatched(patch, p.files))
		}
	}
	slices.SortFunc(out, func(a, b UnmatchedPatch) int {
		return strings.Compare(fmt.Sprintf("%s:%09d", a.File, a.Line), fmt.Sprintf("%s:%09d", b.File, b.Line))
	})
	return out
}

// markOf is the field that marks what patch i is for.
func markOf(i int) string { return fmt.Sprintf("%s%d", markField, i) }

// addMarks puts marking patches into the kustomization of a directory. Patches that
// delete something are left out: a mark would be deleted, too.
func (pr *probe) addMarks(dir string) {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(dir, base)
		data, err := pr.fs.ReadFile(name)
		var k types.Kustomization
		if err != nil || k.Unmarshal(data) != nil {
			continue
		}
		pr.resources(&k, dir)
		before := len(pr.patches)
		k.Patches = pr.withMarks(k.Patches, name, "patches")
		k.PatchesJson6902 = pr.withMarks(k.PatchesJson6902, name, "patchesJson6902")                                //nolint:staticcheck // kustomize acts on deprecated fields
		merges := slices.DeleteFunc(slices.Clone(k.PatchesStrategicMerge), func(m types.PatchStrategicMerge) bool { //nolint:staticcheck // kustomize acts on deprecated fields
			return pr.deletes(dir, string(m), string(m))
		})
		if len(pr.patches) == before && len(k.PatchesStrategicMerge) == len(merges) { //nolint:staticcheck // kustomize acts on deprecated fields
			continue
		}
		k.PatchesStrategicMerge = merges //nolint:staticcheck // kustomize acts on deprecated fields
		if data, err = yaml.Marshal(k); err == nil {
			_ = pr.fs.WriteFile(name, data) // in memory
		}
	}
}

// withMarks returns a list of patches with a marking one before each that has a target.
func (pr *probe) withMarks(list []types.Patch, name, field string) []types.Patch {
	var out []types.Patch
	for i, p := range list {
		if p.Target != nil {
			op := fmt.Sprintf(`[{"op": "add", "path": "/%s", "value": ""}]`, markOf(len(pr.patches)))
			pr.patches = append(pr.patches, probedPatch{inBundlePath(name), field, i, *p.Target})
			out = append(out, types.Patch{Target: p.Target, Patch: op})
		}
		if !pr.deletes(path.Dir(name), p.Path, p.Patch) {
			out = append(out, p)
		}
	}
	return out
}

// deletes reports whether a patch, in a file or as it is written, deletes something.
func (pr *probe) deletes(dir, file, text string) bool {
	body := []byte(text)
	if data, err := pr.fs.ReadFile(path.Join(dir, file)); file != "" && err == nil {
		body = data
	}
	return bytes.Contains(body, []byte("$patch"))
}

// resources notes the resources in files that a kustomization lists, and those that
// it generates.
func (pr *probe) resources(k *types.Kustomization, dir string) {
	for _, file := range k.Resources {
		data, err := pr.fs.ReadFile(path.Join(dir, file))
		if err != nil {
			continue
		}
		for _, doc := range position.Documents(data) {
			root := position.Root(doc.Text)
			kind, _ := position.Text(root, "kind")
			if name, ok := position.Text(root, "metadata", "name"); ok && path.Base(file) != chartOutput {
				pr.names = append(pr.names, resourceName{kind, name})
			}
		}
	}
	for i := range k.ConfigMapGenerator {
		pr.names = append(pr.names, resourceName{"ConfigMap", k.ConfigMapGenerator[i].Name})
	}
	for i := range k.SecretGenerator {
		pr.names = append(pr.names, resourceName{"Secret", k.SecretGenerator[i].Name})
	}
}

// unmatched returns the finding for a patch that matches nothing. files are those of
// the bundle.
func (pr *probe) unmatched(p probedPatch, files []file) UnmatchedPatch {
	out := UnmatchedPatch{Place: Place{
		File: p.file, Text: fmt.Sprintf("the patch changes nothing: its target (%s) matches no resource of the kustomization", printable.Line(selectorText(p.target))),
	}}
	for _, f := range files {
		if f.name == p.file {
			out.Line, out.Column = position.Locate(position.Root(f.data), false, p.field, p.index)
		}
	}
	out.Hint = pr.suggestTargets(p.target)
	return out
}

// selectorText is a target for people.
func selectorText(s types.Selector) string {
	var words []string
	add := func(key, value string) {
		if value != "" {
			words = append(words, key+" "+value)
		}
	}
	add("group", s.Group)
	add("version", s.Version)
	add("kind", s.Kind)
	add("name", s.Name)
	add("namespace", s.Namespace)
	add("labels", s.LabelSelector)
	add("annotations", s.AnnotationSelector)
	return strings.Join(words, ", ")
}

// suggestTargets suggests objects for a target that matches nothing.
func (pr *probe) suggestTargets(s types.Selector) string {
	var kinds, names, all []string
	for _, n := range pr.names {
		kinds = append(kinds, n.kind)
		if !slices.Contains(all, n.String()) {
			all = append(all, n.String())
		}
		if s.Kind == "" || n.kind == s.Kind {
			names = append(names, n.name)
		}
	}
	slices.Sort(all)
	switch near := spelling.Nearest(s.Name, names); {
	case s.Kind != "" && len(names) == 0:
		if kind := spelling.Nearest(s.Kind, kinds); kind != "" {
			return fmt.Sprintf("did you mean kind %q?", kind)
		}
		return "the resources are " + someOf(all)
	case s.Name != "" && !slices.Contains(names, s.Name) && near != "":
		return fmt.Sprintf("did you mean %q?", near)
	case s.Name != "" && !slices.Contains(names, s.Name):
		slices.Sort(names)
		return fmt.Sprintf("the resources of this kind are called %s", someOf(slices.Compact(names)))
	case s.Name != "":
		return "there is " + printable.Line(firstNonEmpty(s.Kind, "a resource")+" "+s.Name) + ", which differs in what else the target asks for"
	}
	return "the resources are " + someOf(all)
}

// someOf is some of a list, for people.
func someOf(list []string) string {
	if more := len(list) - maxListed; more > 0 {
		return strings.Join(list[:maxListed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}
