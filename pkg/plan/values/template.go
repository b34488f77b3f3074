package values

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// maxRenderedBytes is how much one template may write: 4 MiB.
const maxRenderedBytes = 4 << 20

var errTooMuch = errors.New("the template writes more than 4 MiB")

// renderTree renders values as a whole: they are written as YAML, run through
// one template, and read again. So keys can be templates, and what a template
// writes can be of any type.
func renderTree(tree map[string]any, facts map[string]any) (map[string]any, error) {
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	value, err := renderText("values", string(text), facts)
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

// renderText renders one template and reads the result as YAML.
func renderText(name, text string, facts map[string]any) (any, error) {
	m := &meter{}
	t, err := template.New(name).Funcs(m.functions(text)).Option("missingkey=error").Delims("${", "}").Parse(text)
	if err != nil {
		return nil, err
	}
	if err := m.put(t); err != nil {
		return nil, err
	}
	var out limitedText
	switch err := t.Execute(&out, facts); {
	case errors.Is(err, errSteps):
		return nil, fmt.Errorf("%s: %w", name, errSteps)
	case err != nil:
		return nil, err
	}
	var value any
	if err := yaml.Unmarshal([]byte(out.text.String()), &value); err != nil {
		return nil, fmt.Errorf("%s: what the templates leave is not YAML%s", name, line(err))
	}
	return value, nil
}

var lineOf = regexp.MustCompile(`line \d+`)

// line says where in the text err was found, if it says so itself. The rest of
// such an error may quote the text, which may be a secret.
func line(err error) string {
	if found := lineOf.FindString(err.Error()); found != "" {
		return ", " + found
	}
	return ""
}

// limitedText takes at most maxRenderedBytes.
type limitedText struct{ text strings.Builder }

func (l *limitedText) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > maxRenderedBytes {
		return 0, errTooMuch
	}
	return l.text.Write(p)
}
