package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// print writes Bundles, each with its image scans, to where -o says: as YAML
// one document each, with "---" between them, as JSON one list.
func (o *applyOptions) print(out io.Writer, set bundle.Set) error {
	format, file := printer.FormatYAML, ""
	switch o.output {
	case printer.FormatJSON:
		format = printer.FormatJSON
	case "-", printer.FormatYAML:
	default:
		file = o.output
		if strings.HasSuffix(file, ".json") {
			format = printer.FormatJSON
		}
	}
	docs, err := exported(set)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := printObjects(&text, printer.Output(format), docs); err != nil {
		return err
	}
	if file == "" {
		_, err := out.Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil { //nolint:gosec // a file of the user's, like any other
		return fmt.Errorf("write bundles: %w", err)
	}
	return nil
}

// exported are the objects of a set as they are printed.
func exported(set bundle.Set) ([]any, error) {
	var docs []any
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		doc, err := bundle.Export(r.Bundle)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
		for _, scan := range r.Scans {
			doc, err := plainObject(scan)
			if err != nil {
				return nil, err
			}
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

// plainObject is an object as it is printed for files: without its status, and
// without what servers add.
func plainObject(obj any) (map[string]any, error) {
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

// printObjects writes objects as YAML documents with "---" between them, or as
// one list in JSON.
func printObjects(w io.Writer, format printer.Output, docs []any) error {
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
