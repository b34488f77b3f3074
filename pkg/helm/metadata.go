package helm

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// ofMetadata matches an error of checkTexts: the object and the field.
var ofMetadata = regexp.MustCompile(`^(\S+) (\S+): (?:metadata\.(labels|annotations) must be|(labels|annotations): the value of ("(?:[^"\\]|\\.)*") is)`)

// metadata is the place in a file of the labels or annotations that an error is about; 0, 0
// where it is about something else, or where the file has no such object as plain YAML.
func (l locator) metadata(file, text string) (line, column int) {
	m := ofMetadata.FindStringSubmatch(text)
	if m == nil {
		return 0, 0
	}
	keys, asKey := []any{"metadata", m[3] + m[4]}, true
	if key, err := strconv.Unquote(m[5]); err == nil {
		keys, asKey = append(keys, key), false
	}
	for _, doc := range position.Documents(l.bytes(file)) {
		object := objectBelow(position.Root(doc.Text), m[1], m[2])
		if line, column, ok := position.Find(object, asKey, keys...); ok {
			return doc.Before + line, column
		}
	}
	return 0, 0
}

// objectBelow is the object of a kind and name, with its namespace before a slash, that a
// document is, or that is in the list which it is; nil where there is none.
func objectBelow(root *yaml.Node, kind, name string) *yaml.Node {
	hasKind, _ := position.Text(root, "kind")
	if items := position.Value(root, "items"); items != nil && items.Kind == yaml.SequenceNode && strings.HasSuffix(hasKind, "List") {
		for _, item := range items.Content {
			if found := objectBelow(item, kind, name); found != nil {
				return found
			}
		}
		return nil
	}
	hasName, _ := position.Text(root, "metadata", "name")
	if namespace, _ := position.Text(root, "metadata", "namespace"); namespace != "" {
		hasName = namespace + "/" + hasName
	}
	if hasKind != kind || hasName != name {
		return nil
	}
	return root
}
