package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// renderedObject is one rendered object and the file it came from.
type renderedObject struct {
	*unstructured.Unstructured
	source string
}

// sourceMark is how Helm says in its output which file a document is from.
const sourceMark = "# Source: "

// parseObjects is parseAll for those who do not ask for what is skipped.
func parseObjects(data []byte, source string) ([]renderedObject, error) {
	out, _, err := parseAll(data, source)
	return out, err
}

// parseAll reads a stream of YAML or JSON documents. source names the file in
// errors; a document with a mark of Helm's names its own. Documents without a
// kind are skipped, as in rancher/fleet; skipped is their files. Lists are taken
// apart.
func parseAll(data []byte, source string) (out []renderedObject, skipped []string, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	line := 0 // where the document begins
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, skipped, nil
		}
		if err != nil {
			return nil, nil, reconcile.TerminalError(release.ReasonBadYAML, unseparated(data, source, err))
		}
		from := sourceFile(doc, source)
		objs, err := parseDocument(doc)
		switch {
		case errors.Is(err, errNoKind):
			skipped = append(skipped, from)
		case err != nil:
			return nil, nil, reconcile.TerminalError(release.ReasonBadYAML, atLine(from, line, err))
		}
		for _, o := range objs {
			out = append(out, renderedObject{Unstructured: o, source: from})
		}
		line += bytes.Count(doc, []byte("\n")) + 1
	}
}

// unseparated is the error of a line that begins with --- and goes on, with its place. err
// is what the reader says, which refuses such a line.
func unseparated(data []byte, source string, err error) error {
	line := position.Unseparated(data)
	if line == 0 {
		return fmt.Errorf("%s: %w", source, err)
	}
	return fmt.Errorf("%s:%d: a line that begins with --- separates documents: what stands behind --- belongs in the next line", source, line)
}

// sourceFile returns the file that a document of Helm's output names.
func sourceFile(doc []byte, otherwise string) string {
	for line := range bytes.Lines(doc) {
		text := strings.TrimSpace(string(line))
		if text == "" || text == "---" {
			continue
		}
		if name, ok := strings.CutPrefix(text, sourceMark); ok {
			return inBundle(name)
		}
		return otherwise
	}
	return otherwise
}

// inBundle turns a file name of Helm's, which starts with the chart's name,
// into one of the bundle's.
func inBundle(name string) string {
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	return name
}

// errNoKind is a document that holds something, and no kind.
var errNoKind = errors.New("it has no kind")

func parseDocument(doc []byte) ([]*unstructured.Unstructured, error) {
	data, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return nil, err
	}
	if text := string(bytes.TrimSpace(data)); text == "null" || text == "{}" {
		return nil, nil
	}
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil, errors.New("a manifest must be a map, with apiVersion and kind")
	}
	// The usual document is read once: a large one is expensive to read.
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	kind, isText := fields["kind"].(string)
	if _, isList := fields["items"]; isText && kind != "" && !isList {
		return flattenLists(&unstructured.Unstructured{Object: fields})
	}
	return parseUnusual(data)
}

// parseUnusual is parseDocument, from JSON, for lists and for documents without a proper
// kind.
func parseUnusual(data []byte) ([]*unstructured.Unstructured, error) {
	head := struct {
		Kind string `json:"kind"`
	}{}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if head.Kind == "" {
		return nil, errNoKind
	}
	decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	return flattenLists(decoded)
}

// flattenLists takes lists apart, also lists in lists.
func flattenLists(in runtime.Object) ([]*unstructured.Unstructured, error) {
	switch o := in.(type) {
	case *unstructured.UnstructuredList:
		var out []*unstructured.Unstructured
		err := o.EachListItem(func(item runtime.Object) error {
			objs, err := flattenLists(item)
			out = append(out, objs...)
			return err
		})
		return out, err
	case *unstructured.Unstructured:
		if o.IsList() {
			list, err := o.ToList()
			if err != nil {
				return nil, err
			}
			return flattenLists(list)
		}
		if err := checkTexts(o); err != nil {
			return nil, err
		}
		if o.GetName() == "" && o.GetGenerateName() == "" {
			return nil, fmt.Errorf("%s without metadata.name", o.GetKind())
		}
		return []*unstructured.Unstructured{o}, nil
	}
	return nil, fmt.Errorf("unexpected document of type %T", in)
}

// checkTexts refuses metadata that are no text although they have to be. A
// name or a namespace would count as missing, labels and annotations would be
// lost when Fleet adds its own.
func checkTexts(o *unstructured.Unstructured) error {
	for _, field := range []string{"name", "namespace"} {
		if _, _, err := unstructured.NestedString(o.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: metadata.%s is no text; put it in quotes", describe(o), field)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		m, _, err := unstructured.NestedMap(o.Object, "metadata", field)
		if err != nil {
			return fmt.Errorf("%s: metadata.%s must be a map", describe(o), field)
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if _, ok := m[key].(string); !ok && m[key] != nil {
				return fmt.Errorf("%s: %s: the value of %q is no text; put it in quotes", describe(o), field, key)
			}
		}
	}
	return nil
}

// render writes objects as YAML documents in the order in which Helm installs
// kinds.
func render(objs []renderedObject) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range inOrder(objs) {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", describe(o.Unstructured), err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}

// inOrder are objects in the order in which Helm installs kinds.
func inOrder(objs []renderedObject) []renderedObject {
	sorted := append([]renderedObject(nil), objs...)
	sort.SliceStable(sorted, func(a, b int) bool { return installOrder(sorted[a]) < installOrder(sorted[b]) })
	return sorted
}

// installOrder is the place of an object's kind in Helm's order; kinds that Helm does
// not know come last.
func installOrder(o renderedObject) int {
	for i, kind := range releaseutil.InstallOrder {
		if kind == o.GetKind() {
			return i
		}
	}
	return len(releaseutil.InstallOrder)
}

// describe names an object for people: "Service web/web".
func describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
