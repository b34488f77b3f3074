package values

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// maxRenderedBytes is how much one template may write: 4 MiB.
const maxRenderedBytes = 4 << 20

// treeName is the name of the template for values as a whole.
const treeName = "values"

// templateValues begins the name of a template of helm.templateValues, before
// its key.
const templateValues = "templateValues."

// renderTree renders values as a whole: they are written as YAML, run through
// one template, and read again. So keys can be templates, and what a template
// writes can be of any type.
func (m *meter) renderTree(tree map[string]any, facts map[string]any) (map[string]any, error) {
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	value, err := m.renderText(treeName, string(text), facts)
	if err != nil {
		return nil, err
	}
	switch t := value.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return t, nil
	}
	return nil, errors.New("values: the templates do not leave a map")
}

// renderText renders one template and reads the result as YAML. A fault of a
// template that needs more than it may says where it was.
func (m *meter) renderText(name, text string, facts map[string]any) (any, error) {
	m.offset = 0
	found := scanTemplates(text)
	err := found.checkLimits()
	var written string
	if err == nil {
		written, err = m.execute(name, text, facts)
	}
	var value any
	if err == nil {
		value, err = m.parseYAML(name, written, found.entries)
	}
	if limit := limitOf(err); limit != nil {
		return nil, fmt.Errorf("%s: %w", positionText(name, text, m.offset), limit)
	}
	return value, renderError(name, text, err)
}

func (m *meter) execute(name, text string, facts map[string]any) (string, error) {
	t, err := template.New(name).Funcs(m.functions(text)).Option("missingkey=error").Delims(leftDelim, rightDelim).Parse(text)
	if err != nil {
		return "", err
	}
	if err := m.instrument(t); err != nil {
		return "", err
	}
	m.calls, m.start = 0, time.Now()
	out := limitedText{meter: m}
	err = t.Execute(&out, facts)
	m.time -= time.Since(m.start)
	return out.text.String(), err
}

// limitOf is the part of a template's error that is an ErrLimit, without what
// text/template says of the calls that this package has put in; nil for another.
func limitOf(err error) error {
	if !errors.Is(err, ErrLimit) {
		return nil
	}
	var in template.ExecError
	if errors.As(err, &in) {
		return errors.Unwrap(in.Err)
	}
	return err
}

// limitedText takes at most maxRenderedBytes, and as much as the meter allows.
type limitedText struct {
	meter *meter
	text  strings.Builder
}

func (l *limitedText) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > maxRenderedBytes {
		return 0, errText
	}
	if err := l.meter.addBytes("the text", len(p)); err != nil {
		return 0, err
	}
	return l.text.Write(p)
}
