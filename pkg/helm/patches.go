package helm

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

var (
	// unmatched is a patch whose object is not among the resources.
	unmatched = regexp.MustCompile(`no matches for Id .*failed to find unique target for patch ([^.\s]+)\.[^/\s]*/(\S+)\.[^.\s]+`)
	// missingPath is an operation of a JSON patch whose path an object does not have.
	missingPath = regexp.MustCompile(`operation does not apply: doc is missing (?:path|key): "?(/[^\s:"]*)`)
)

// patchFields are the fields of a kustomization that list patches.
var patchFields = []string{"patches", "patchesStrategicMerge", "patchesJson6902"}

// A kustomPatch is an entry of a kustomization.
type kustomPatch struct {
	file         string // of the kustomization
	line, column int
	body         []byte
	source       string // the file of the body; empty where the kustomization holds it
}

// patch is an error about a patch of the kustomization in a directory, or of one
// that it builds on.
func (l locator) patch(dir, text string) (Place, bool) {
	if m := unmatched.FindStringSubmatch(text); m != nil {
		if place, ok := l.patchFor(dir, m[1], m[2]); ok {
			return place, true
		}
	}
	if m := missingPath.FindStringSubmatch(text); m != nil {
		return l.operation(dir, m[1], text)
	}
	return Place{}, false
}

// patchFor is the patch for an object that is not among the resources.
func (l locator) patchFor(dir, kind, name string) (Place, bool) {
	for _, p := range l.patches(dir) {
		for _, doc := range position.Documents(p.body) {
			root := position.Root(doc.Text)
			hasKind, _ := position.Text(root, "kind")
			hasName, _ := position.Text(root, "metadata", "name")
			if hasKind == kind && hasName == name {
				text, differs := l.otherField(p, root)
				if !differs {
					text = fmt.Sprintf(", and no resource of the kustomization has that kind and name%s", l.resourceMeant(p, kind, name))
				}
				return Place{File: p.file, Line: p.line, Column: p.column, Text: fmt.Sprintf("the patch is for %s %s", kind, name) + text}, true
			}
		}
	}
	return Place{}, false
}

// otherField is in which field a patch differs from an object in the files of the bundle
// that has its kind and name.
func (l locator) otherField(p kustomPatch, patch *yaml.Node) (text string, differs bool) {
	kind, _ := position.Text(patch, "kind")
	name, _ := position.Text(patch, "metadata", "name")
	l.objects(p, func(root *yaml.Node, hasKind, hasName string) {
		if hasKind != kind || hasName != name || differs {
			return
		}
		for _, keys := range [][]any{{"apiVersion"}, {"metadata", "namespace"}} {
			want, _ := position.Text(patch, keys...)
			has, _ := position.Text(root, keys...)
			if differs = want != has; differs {
				text = differing(position.Path(keys), want, has)
				return
			}
		}
	})
	return text, differs
}

// differing says that a patch wants one value of a field and the resource has another.
func differing(field, want, has string) string {
	text := " without " + field
	if want != "" {
		text = fmt.Sprintf(" with %s %q", field, want)
	}
	if has == "" {
		return text + ", and the resource has none"
	}
	return text + fmt.Sprintf(", and the resource has %s %q", field, has)
}

// objects visits the objects in the files of the bundle that a patch may be for. The patch
// itself is none.
func (l locator) objects(p kustomPatch, visit func(root *yaml.Node, kind, name string)) {
	for _, r := range l.d.Content.Resources {
		if ext := path.Ext(r.Name); r.Name == p.source || ext != ".yaml" && ext != ".yml" {
			continue
		}
		for _, doc := range position.Documents(l.bytes(r.Name)) {
			root := position.Root(doc.Text)
			kind, _ := position.Text(root, "kind")
			name, _ := position.Text(root, "metadata", "name")
			visit(root, kind, name)
		}
	}
}

// resourceMeant is which object in the files of the bundle a patch without a target
// probably means; empty where none is near.
func (l locator) resourceMeant(p kustomPatch, kind, name string) string {
	var kinds, names []string
	l.objects(p, func(_ *yaml.Node, hasKind, hasName string) {
		switch {
		case hasKind == kind && hasName == name: // it is no resource of this kustomization
		case hasKind == kind:
			names = append(names, hasName)
		case hasName == name:
			kinds = append(kinds, hasKind)
		}
	})
	if near := spelling.Nearest(kind, kinds); near != "" {
		return fmt.Sprintf("; did you mean %s %s?", near, name)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s %s?", kind, near)
	}
	return ""
}

// operation is the operation of a JSON patch whose path an object does not have.
func (l locator) operation(dir, pointer, text string) (Place, bool) {
	for _, p := range l.patches(dir) {
		if !bytes.Contains(p.body, []byte(pointer)) {
			continue
		}
		place := Place{File: p.file, Line: p.line, Column: p.column, Text: text}
		if p.source != "" {
			place.File = p.source
			place.Line, place.Column = l.findWord(p.source, pointer)
		} else if line, column := l.findWord(p.file, pointer); line > p.line {
			place.Line, place.Column = line, column
		}
		return place, true
	}
	return Place{}, false
}

// patches are those of all kustomizations of the bundle, that in dir first.
func (l locator) patches(dir string) []kustomPatch {
	var list []kustomPatch
	for _, first := range []bool{true, false} {
		for _, r := range l.d.Content.Resources {
			if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(r.Name)) && (path.Dir(r.Name) == path.Clean(dir)) == first {
				list = append(list, l.patchesIn(r.Name)...)
			}
		}
	}
	return list
}

// patchesIn are those of one kustomization.
func (l locator) patchesIn(file string) []kustomPatch {
	var list []kustomPatch
	root := position.Root(l.bytes(file))
	for _, field := range patchFields {
		for i := 0; ; i++ {
			line, column, ok := position.Find(root, false, field, i)
			if !ok {
				break
			}
			p := kustomPatch{file: file, line: line, column: column}
			text, single := position.Text(root, field, i)
			name, named := position.Text(root, field, i, "path")
			inline, written := position.Text(root, field, i, "patch")
			switch {
			case named && name != "":
				p.source = path.Join(path.Dir(file), name)
			case written:
				p.body = []byte(inline)
			case single && l.bytes(path.Join(path.Dir(file), text)) != nil:
				p.source = path.Join(path.Dir(file), text)
			case single:
				p.body = []byte(text)
			}
			if p.source != "" {
				p.body = l.bytes(p.source)
			}
			list = append(list, p)
		}
	}
	return list
}
