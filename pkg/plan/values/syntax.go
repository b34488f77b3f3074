package values

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A SyntaxError is why a template of values cannot be parsed, on any cluster.
type SyntaxError struct {
	Line     int    // of the text, from 1
	Text     string // without what stands in the template, but for the name of a function
	Function string // the function that does not exist; else empty
}

func (e *SyntaxError) Error() string { return e.Text }

// Functions returns the names of all functions that templates of values may call.
func Functions() []string { return slices.Sorted(maps.Keys(functions)) }

// Parse reports why a text cannot be a template, or nil.
func Parse(text string) *SyntaxError {
	if !strings.Contains(text, leftDelim) {
		return nil
	}
	code := scanTemplates(text)
	if code.checkLimits() != nil {
		return nil // what is too large is refused when it is rendered
	}
	_, err := template.New(treeName).Funcs(functions).Delims(leftDelim, rightDelim).Parse(text)
	if err == nil {
		return nil
	}
	e := syntaxError(err.Error())
	if code.unclosed > 0 && !strings.HasPrefix(e.Text, "unterminated") {
		// The parser reads on, and blames a word of the text behind.
		return &SyntaxError{Line: code.unclosed, Text: "the } that closes ${ is missing"}
	}
	if e.Text == "unexpected EOF" {
		e.Text = "the ${ end } that closes an if, with or range is missing"
	}
	return e
}

// ParseTree reports why values as a whole cannot be a template, or nil. Its line
// is of no use. Texts may be right as a whole that are not on their own.
func ParseTree(tree map[string]any) *SyntaxError {
	if !anyTemplate(tree) {
		return nil
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil // it is not rendered either
	}
	return Parse(string(text))
}

// Templated reports whether templates stand in the Helm options, to be rendered
// for each cluster.
func Templated(h *fleet.HelmOptions) bool {
	if h == nil || h.DisablePreProcess {
		return false
	}
	for _, text := range h.TemplateValues {
		if anyTemplate(text) {
			return true
		}
	}
	return h.Values != nil && anyTemplate(h.Values.Data)
}

// Renders reports whether templates are rendered for a cluster with these labels:
// for one without labels of its user's or Fleet's they are not, as Render says.
func Renders(labels map[string]string) bool { return len(usableLabels(labels)) > 0 }

// anyTemplate reports whether there is a template in a tree of values.
func anyTemplate(v any) bool {
	switch t := v.(type) {
	case string:
		return strings.Contains(t, leftDelim)
	case []any:
		return slices.ContainsFunc(t, anyTemplate)
	case map[string]any:
		for key, e := range t {
			if anyTemplate(key) || anyTemplate(e) {
				return true
			}
		}
	}
	return false
}

var (
	parseError  = regexp.MustCompile(`(?s)^template: ` + treeName + `:(\d+):(?:\d+:)? (.*?)(?: started at \S+:(\d+))?$`)
	noFunction  = regexp.MustCompile(`^function "(\w+)" not defined$`)
	quotedPiece = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<[^>]*>`)
)

// syntaxError reads a message of text/template. Pieces of the template are left
// out, since values may be secret.
func syntaxError(message string) *SyntaxError {
	e := &SyntaxError{Line: 1, Text: message}
	if m := parseError.FindStringSubmatch(message); m != nil {
		if line, err := strconv.Atoi(cmp.Or(m[3], m[1])); err == nil {
			e.Line = line
		}
		e.Text = m[2]
	}
	if m := noFunction.FindStringSubmatch(e.Text); m != nil {
		e.Function, e.Text = m[1], fmt.Sprintf("there is no function %q", m[1])
		return e
	}
	e.Text = quotedPiece.ReplaceAllStringFunc(e.Text, func(piece string) string {
		if len(piece) <= len(`"}"`) {
			return piece
		}
		return "…"
	})
	e.Text = strings.Join(strings.Fields(e.Text), " ")
	return e
}
