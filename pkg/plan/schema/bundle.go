package schema

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// Bounds of what is read of one bundle.
const (
	maxDocument = 8 << 20 // bytes; larger documents are not checked
	maxFindings = 200     // of one bundle
)

// A Bundle is what Check looks at: files as they stand in the repository, and what
// agents make of them.
type Bundle struct {
	// Dir is the directory of the bundle; files are named relative to it.
	Dir string
	// Files are all files by name.
	Files map[string][]byte
	// Manifests names those of the files that are deployed as they are.
	Manifests []string
	// Rendered are the objects that charts, kustomizations and manifests render
	// to.
	Rendered []Rendered
	// Chart is the place of findings in rendered objects that are not in Files.
	Chart finding.Finding
}

// A Rendered is one object and the file that it comes from.
type Rendered struct {
	File   string
	Object map[string]any
	// Uncertain says why values may be others on real clusters; what is wrong with
	// those that a template makes is a warning then. Empty: they are the same.
	Uncertain string
	// Overlays are those of overlays/ that are applied to plain manifests, in their order.
	Overlays []string
}

// A bundleCheck is the work on one bundle.
type bundleCheck struct {
	kinds   *Kinds
	bundle  Bundle
	found   []finding.Finding
	hasMore bool // findings were left out
	// unknown are the kinds that were found to be unknown: each is reported once.
	unknown map[string]bool
	ownCRDs map[kube.GroupKind]string // kinds whose CRDs the bundle brings
	roots   map[string][]*yaml.Node   // documents of files that were needed
}

// Findings returns what is wrong with a bundle's objects, at most 200 findings by place. An
// unknown kind is named where it stands first.
func (k *Kinds) Findings(b Bundle) []finding.Finding {
	j := &bundleCheck{kinds: k, bundle: b, unknown: map[string]bool{}, ownCRDs: b.ownKinds(), roots: map[string][]*yaml.Node{}}
	for _, name := range b.Manifests {
		j.file(name, b.Files[name])
	}
	overlaid := b.overlaid()
	for _, r := range b.Rendered {
		if !overlaid && slices.Contains(b.Manifests, r.File) {
			continue // its file was checked
		}
		for _, fault := range j.renderedFaults(r.Object) {
			at := j.sourceOf(r, fault)
			if line, column, hint := position.Unindented(j.bundle.Files[r.File]); line > 0 && at.Line == 0 && fault.Rule == finding.RuleUnknownField {
				at.Line, at.Column, fault.Hint = line, column, "probably "+hint
			}
			if aboutValue := fault.Rule == finding.RuleType || fault.Rule == finding.RuleValue; aboutValue && r.Uncertain != "" && !j.constant(at) {
				fault.Severity, fault.Hint = finding.Warning, r.Uncertain
			}
			if !j.repeated(r.Object, fault) {
				j.addFault(at, r.Object, fault)
			}
		}
	}
	finding.Sort(j.found)
	if j.hasMore {
		j.found = append(j.found, finding.Finding{
			Path: b.Dir, Severity: finding.Warning, Rule: finding.RuleTooLarge, Message: "there are more findings about the objects here, which are left out",
		})
	}
	return slices.Compact(j.found)
}

// renderedFaults are those of an object that was rendered. It may have no apiVersion, which
// Helm does not install; of manifests reading says so.
func (b *bundleCheck) renderedFaults(object map[string]any) []Fault {
	list := b.objectFaults(object)
	if version, _ := object["apiVersion"].(string); version != "" || len(list) > 0 {
		return list
	}
	return []Fault{{Path: []any{"kind"}, Severity: finding.Error, Rule: finding.RuleManifest, Message: "the object has no apiVersion"}}
}

// Place returns where a value of a rendered object stands, as far as it can be found: in
// the file that it comes from, or that file. Keys lead to the value. For a value of a
// downloaded chart it returns the place that names the chart, and the template in Message.
func (b Bundle) Place(r Rendered, keys ...any) finding.Finding {
	j := &bundleCheck{bundle: b, roots: map[string][]*yaml.Node{}}
	return j.sourceOf(r, Fault{Path: keys})
}

// constant reports whether a place is a line that renders to itself.
func (b *bundleCheck) constant(at finding.Finding) bool {
	name, ok := strings.CutPrefix(at.Path, path.Clean(b.bundle.Dir)+"/")
	if b.bundle.Dir == "." {
		name, ok = at.Path, true
	}
	lines := bytes.Split(b.bundle.Files[name], []byte("\n"))
	return ok && at.Line > 0 && at.Line <= len(lines) && !bytes.Contains(lines[at.Line-1], []byte("{{"))
}

// overlaid reports whether overlays may change manifests.
func (b Bundle) overlaid() bool {
	for name := range b.Files {
		if strings.HasPrefix(name, "overlays/") {
			return true
		}
	}
	return false
}

// repeated reports whether a fault is an unknown kind that was named before.
func (b *bundleCheck) repeated(object map[string]any, fault Fault) bool {
	if fault.Rule != finding.RuleUnknownKind {
		return false
	}
	what := fmt.Sprint(object["apiVersion"], " ", object["kind"])
	seen := b.unknown[what]
	b.unknown[what] = true
	return seen
}

// addFault makes a finding of a fault, at a place. The place may begin the message.
func (b *bundleCheck) addFault(at finding.Finding, object map[string]any, fault Fault) {
	at.Severity, at.Rule, at.Hint = fault.Severity, fault.Rule, fault.Hint
	at.Message += objectTitle(object) + ": " + fault.Message
	b.addFinding(at)
}

// addFinding takes in a finding, as long as there is room.
func (b *bundleCheck) addFinding(f finding.Finding) {
	if len(b.found) >= maxFindings {
		b.hasMore = true
		return
	}
	b.found = append(b.found, f)
}

// objectTitle names an object for people.
func objectTitle(object map[string]any) string {
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	if name, _ := meta["name"].(string); name != "" {
		return strings.TrimSpace(position.ShortName(kind) + " " + position.ShortName(name))
	}
	return position.ShortName(kind)
}

// file checks the documents of a file of manifests.
func (b *bundleCheck) file(name string, data []byte) {
	for _, doc := range position.Documents(data) {
		object := decode(doc.Text)
		if object == nil {
			continue // reading says why
		}
		root := position.Root(doc.Text)
		if len(position.ObjectLines(root)) > 0 {
			continue // reading says so, and the keys of two objects are mixed
		}
		place := func(key bool, keys []any) finding.Finding {
			line, column := position.Locate(root, key, keys...)
			return finding.Finding{Path: path.Join(b.bundle.Dir, name), Line: doc.Before + max(line, 1), Column: column}
		}
		b.duplicates(root, doc, place(false, nil))
		eachObject(object, nil, func(o map[string]any, where []any) {
			for _, fault := range b.objectFaults(o) {
				if !b.repeated(o, fault) {
					b.addFault(place(fault.Key, slices.Concat(where, fault.Path)), o, fault)
				}
			}
		})
	}
}

// duplicates finds keys that stand twice in a mapping of a document: the decoder of
// agents takes the last one.
func (b *bundleCheck) duplicates(root *yaml.Node, doc position.Document, at finding.Finding) {
	for _, d := range position.Duplicates(root, 10) {
		b.addFinding(finding.Finding{
			Path: at.Path, Line: doc.Before + d.Line, Column: d.Column, Severity: finding.Warning, Rule: finding.RuleDuplicateKey,
			Message: fmt.Sprintf("key %q stands here again (first in line %d); the last one counts", position.ShortName(d.Key), doc.Before+d.First),
		})
	}
}

// Objects returns the objects in a file of manifests, those of lists one by one. It leaves
// out what cannot be read.
func Objects(data []byte) []map[string]any {
	var out []map[string]any
	for _, doc := range position.Documents(data) {
		if object := decode(doc.Text); object != nil {
			eachObject(object, nil, func(o map[string]any, _ []any) { out = append(out, o) })
		}
	}
	return out
}

// CRDs returns those of Objects that are CustomResourceDefinitions.
func CRDs(data []byte) []map[string]any {
	if !bytes.Contains(data, []byte("CustomResourceDefinition")) {
		return nil
	}
	return slices.DeleteFunc(Objects(data), func(o map[string]any) bool { return o["kind"] != "CustomResourceDefinition" })
}

// decode reads one document; nil is no mapping, no YAML, or too large.
func decode(document []byte) map[string]any {
	if len(document) > maxDocument {
		return nil
	}
	var object map[string]any
	raw, err := sigyaml.YAMLToJSON(document)
	if err != nil || json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}

// eachObject visits an object, or all objects in a list.
func eachObject(object map[string]any, where []any, visit func(o map[string]any, where []any)) {
	items, ok := object["items"].([]any)
	kind, _ := object["kind"].(string)
	if !ok || !strings.HasSuffix(kind, "List") || len(where) > maxDepth {
		visit(object, where)
		return
	}
	for i, item := range items {
		if o, ok := item.(map[string]any); ok {
			eachObject(o, append(slices.Clone(where), "items", i), visit)
		}
	}
}

// sourceOf is the place of a fault of a rendered object: in the file that it comes
// from where its line can be found, else the file itself. A kustomization's
// objects are looked for in all files that it may have them from, those of plain manifests
// in the overlays, too.
func (b *bundleCheck) sourceOf(r Rendered, fault Fault) finding.Finding {
	var patches []string
	r.File, patches = b.bundle.overlays(r)
	data, here := b.bundle.Files[r.File]
	if !here || strings.HasPrefix(r.File, ".chart/") {
		at := b.bundle.Chart
		if at.Path == "" {
			at.Path = b.bundle.Dir
		}
		if inner, downloaded := strings.CutPrefix(r.File, ".chart/"); downloaded {
			_, r.File, _ = strings.Cut(inner, "/")
		}
		at.Message = r.File + " of the chart: "
		return at
	}
	names := []string{r.File}
	if kustomization(r.File) {
		for name := range b.bundle.Files {
			if ext := path.Ext(name); (ext == ".yaml" || ext == ".yml") && !kustomization(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	if name, line, column := b.inFiles(names, patches, r.Object, fault); name != "" {
		return finding.Finding{Path: path.Join(b.bundle.Dir, name), Line: line, Column: column}
	}
	at := finding.Finding{Path: path.Join(b.bundle.Dir, r.File)}
	if bytes.Contains(data, []byte("{{")) {
		kind, _ := r.Object["kind"].(string)
		at.Line, at.Column = inTemplate(data, kind, fault.Path)
	}
	return at
}

func kustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(name))
}

// inFile is the place of a fault in a file that has the same object, as plain YAML.
func (b *bundleCheck) inFile(name string, object map[string]any, fault Fault) (line, column int, ok bool) {
	for _, root := range b.documents(name) {
		if isSameObject(root, object) {
			if line, column, ok = position.Find(root, fault.Key, fault.Path...); ok {
				return line, column, true
			}
		}
	}
	return 0, 0, false
}

// documents are the values in a file, with lines that count from its beginning.
func (b *bundleCheck) documents(name string) []*yaml.Node {
	if roots, done := b.roots[name]; done {
		return roots
	}
	var roots []*yaml.Node
	for _, doc := range position.Documents(b.bundle.Files[name]) {
		if len(doc.Text) > maxDocument {
			continue
		}
		if root := position.Root(doc.Text); root != nil {
			position.ShiftLines(root, doc.Before)
			roots = append(roots, root)
		}
	}
	b.roots[name] = roots
	return roots
}

// isSameObject reports whether a document is about an object: the same kind, and the same
// name but for what kustomize puts before or behind it.
func isSameObject(root *yaml.Node, object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	want, _ := meta["name"].(string)
	kind, okKind := position.Text(root, "kind")
	name, okName := position.Text(root, "metadata", "name")
	return okKind && okName && name != "" && kind == object["kind"] && strings.Contains(want, name)
}

// inTemplate returns the line of a template that most likely renders to a value. If the
// last field of the value's path is the key of only one line, it is that line; otherwise it
// is the one after the lines of the fields above. It is 0, 0 if no line has the key. If
// exactly one document has the object's kind, inTemplate looks only at that one.
func inTemplate(data []byte, kind string, keys []any) (line, column int) {
	only := position.Document{Text: data}
	found := 0
	for _, doc := range position.Documents(data) {
		if regexp.MustCompile(`(?m)^kind: *["']?` + regexp.QuoteMeta(kind) + `["']? *$`).Match(doc.Text) {
			found++
			only = doc
		}
	}
	if found != 1 {
		only = position.Document{Text: data}
	}
	if line, column = lineOf(only.Text, keys); line > 0 {
		line += only.Before
	}
	return line, column
}

// lineOf is inTemplate for one document.
func lineOf(data []byte, keys []any) (line, column int) {
	var names []string
	for _, key := range keys {
		if name, ok := key.(string); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return 0, 0
	}
	lines := strings.Split(string(data), "\n")
	last := names[len(names)-1]
	var all []int
	for i, text := range lines {
		if isKey(text, last) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	at := all[0]
	if len(all) > 1 {
		from := 0
		for _, name := range names {
			for i := from; i < len(lines); i++ {
				if isKey(lines[i], name) {
					from = i
					break
				}
			}
		}
		if isKey(lines[from], last) {
			at = from
		}
	}
	return at + 1, strings.Index(lines[at], last) + 1
}

// isKey reports whether a line of YAML begins with a key.
func isKey(line, key string) bool {
	text := strings.TrimLeft(line, " -")
	for _, quote := range []string{"", `"`, "'"} {
		if strings.HasPrefix(text, quote+key+quote+":") {
			return true
		}
	}
	return false
}
