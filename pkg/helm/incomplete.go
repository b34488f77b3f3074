package helm

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// How kustomize refuses a file that it reads as a resource or as a patch and that is none.
var (
	notResource = regexp.MustCompile(`(?:missing (?:kind|metadata\.name) in object [^']*|missing Resource metadata)'+: must build at directory: '([^']+)': file is not directory`)
	notPatch    = regexp.MustCompile(`unable to parse SM or JSON patch from|configuring builtin PatchStrategicMergeTransformer with config: .*: missing (?:kind|metadata\.name) in object`)
)

// incompleteDocument is a document that says too little of what it is: in the file of a resource,
// or in a patch.
func (l locator) incompleteDocument(dir, text string) (Place, bool) {
	if m := notResource.FindStringSubmatch(text); m != nil {
		file, ok := l.pathBelow("", strings.TrimPrefix(m[1], "/"))
		if !ok {
			return Place{}, false
		}
		return lackingIn(Place{File: file}, l.bytes(file), lackingResource)
	}
	if !notPatch.MatchString(text) {
		return Place{}, false
	}
	for _, p := range l.patches(dir) {
		at := Place{File: p.file, Line: p.line, Column: p.column}
		if p.source != "" {
			at = Place{File: p.source}
		}
		if place, ok := lackingIn(at, p.body, lackingPatch); ok {
			return place, true
		}
	}
	return Place{}, false
}

// lackingIn is the place of the first document that lacks something: at, or where that has no
// line, the line of the document. The file is at's.
func lackingIn(at Place, data []byte, lacking func(document []byte, root *yaml.Node) string) (Place, bool) {
	for _, doc := range position.Documents(data) {
		root := position.Root(doc.Text)
		if at.Text = lacking(doc.Text, root); at.Text == "" {
			continue
		}
		if at.Line == 0 && root != nil {
			at.Line = doc.Before + root.Line
		}
		return at, true
	}
	return Place{}, false
}

// lackingResource returns what a document lacks to be a resource; empty if nothing, or
// if there is no document.
func lackingResource(_ []byte, root *yaml.Node) string {
	if root == nil {
		return ""
	}
	if root.Kind != yaml.MappingNode {
		return "a resource must be a mapping with apiVersion, kind and metadata, not " + formOf(root)
	}
	kind, _ := position.Text(root, "kind")
	if kind == "" {
		return "the document has no kind, so kustomize refuses the file"
	}
	if name, _ := position.Text(root, "metadata", "name"); name == "" {
		return printable.Line(kind) + " has no metadata.name, so kustomize refuses the file"
	}
	return ""
}

// lackingPatch returns what a document lacks to be a patch; empty if nothing, or if
// there is no document. A list is a JSON patch.
func lackingPatch(document []byte, root *yaml.Node) string {
	if root == nil {
		var any yaml.Node
		if err := yaml.Unmarshal(document, &any); err != nil {
			return "the patch is no YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
		}
		return ""
	}
	switch root.Kind {
	case yaml.SequenceNode:
		return ""
	case yaml.MappingNode:
	default:
		return "a patch must be a mapping, or a list of the operations of a JSON patch, not " + formOf(root)
	}
	for _, keys := range [][]any{{"kind"}, {"metadata", "name"}} {
		if text, _ := position.Text(root, keys...); text == "" {
			return fmt.Sprintf("the patch has no %s: it has to say with kind and metadata.name what it changes", position.Path(keys))
		}
	}
	return ""
}

// formOf names the type of a value that should be a mapping.
func formOf(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	return "a text"
}
