package sources

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// DocumentsOf takes a stream of YAML apart. It leaves out documents without an object.
func DocumentsOf(text string) ([]map[string]any, error) {
	out := []map[string]any{}
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		doc := map[string]any{}
		err := decode.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was rendered: %w", err)
		}
		if len(doc) > 0 {
			out = append(out, doc)
		}
	}
}

// PlainObject is an object as it is printed for files: without its status, and
// without what servers add.
func PlainObject(obj any) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("print object: %w", err)
	}
	delete(out, "status")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		for _, key := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"} {
			delete(metadata, key)
		}
	}
	return out, nil
}

// PrintObjects writes objects as YAML documents with "---" between them, or as
// one list in JSON.
func PrintObjects(w io.Writer, format printer.Output, docs []any) error {
	if format == printer.FormatJSON {
		return format.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": docs}, false)
	}
	for i, doc := range docs {
		if err := format.Encode(w, doc, i > 0); err != nil {
			return err
		}
	}
	return nil
}
