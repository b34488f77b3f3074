package apply

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// printBundles writes Bundles, each with its image scans, to where -o says: as YAML
// one document each, with "---" between them, as JSON one list.
func (o *Options) printBundles(out io.Writer, set bundle.Set) error {
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
	if err := sources.PrintObjects(&text, printer.Output(format), docs); err != nil {
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
			doc, err := sources.PlainObject(scan)
			if err != nil {
				return nil, err
			}
			docs = append(docs, doc)
		}
	}
	return docs, nil
}
