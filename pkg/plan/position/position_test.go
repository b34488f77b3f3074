package position

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The line of a mistake is where a person has to repair the document.
func TestMistake(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	cases := map[string]struct {
		text string
		want int
	}{
		"QuoteToTheEnd":      {good + "data:\n  a: \"open\n  b: c\n  d: e\n", 6},
		"QuoteToTheNext":     {good + "data:\n  a: \"open\n  b: c\n  d: \"e\"\n  f: g\n", 6},
		"SingleQuote":        {good + "data:\n  a: 'open\n  b: 'c'\n", 6},
		"IndentedTooDeep":    {good + "data:\n  a: b\n    c: d\n  e: f\n", 7},
		"IndentedTooLittle":  {good + "data:\n  a: b\n c: d\n  e: f\n", 7},
		"Tab":                {good + "data:\n\ta: b\n", 6},
		"BracketNeverClosed": {good + "data:\n  a: [b, c\n  e: f\n", 6},
		"UnknownAnchor":      {good + "data:\n  a: *b\n  c: d\n", 6},
		"NoColon":            {good + "data:\n  a: b\n  c\n  e: f\n", 7},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, reported := range []int{0, 1, c.want - 1, c.want, c.want + 1} {
				if got := SyntaxErrorLine([]byte(c.text), reported); got != c.want {
					t.Errorf("parser says line %d: want %d, got %d", reported, c.want, got)
				}
			}
		})
	}
	if got := SyntaxErrorLine([]byte(strings.Repeat("a: [\n", maxSearched/5+1)), 7); got != 7 {
		t.Errorf("a document that is too large keeps the reported line, got %d", got)
	}
	long := good + "data:\n  a: \"open\n" + strings.Repeat("  b: cccccccccccccccccccccccccccccc\n", 5000)
	if got := SyntaxErrorLine([]byte(long), 5006); got != 6 {
		t.Errorf("the quote is opened far above: got line %d", got)
	}
	if got := SyntaxErrorLine([]byte(good), 3); got != 3 {
		t.Errorf("a document that is YAML keeps the reported line, got %d", got)
	}
}

// The search for a mistake is bounded, whatever stands in the file.
func BenchmarkMistake(b *testing.B) {
	document := []byte("a: \"open\nb: \"\" c\n" + strings.Repeat("- x: [\n", 100_000))
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		SyntaxErrorLine(document, 100_000)
	}
}

// A value is found through lists, aliases and merged keys; of one that is not
// there the place is that of what should hold it.
func TestOf(t *testing.T) {
	root := Root([]byte("base: &b\n  x: 1\nlist:\n- name: a\n  deep:\n    y: 2\n- <<: *b\n  z: 3\n"))
	cases := map[string]struct {
		key          bool
		keys         []any
		line, column int
	}{
		"Value":   {false, []any{"list", 0, "name"}, 4, 9},
		"Key":     {true, []any{"list", 0, "name"}, 4, 3},
		"Deep":    {true, []any{"list", 0, "deep", "y"}, 6, 5},
		"Block":   {false, []any{"list", 0, "deep"}, 5, 3},
		"Merged":  {true, []any{"list", 1, "x"}, 2, 3},
		"Missing": {false, []any{"list", 0, "deep", "q"}, 5, 3},
		"Item":    {false, []any{"list", 1, "q"}, 7, 3},
		"Nothing": {false, nil, 1, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if line, column := Locate(root, c.key, c.keys...); line != c.line || column != c.column {
				t.Errorf("want %d:%d, got %d:%d", c.line, c.column, line, column)
			}
		})
	}
	if line, column := Locate((*yaml.Node)(nil), true); line != 0 || column != 0 {
		t.Errorf("no value has no place, got %d:%d", line, column)
	}
}

func TestDuplicates(t *testing.T) {
	root := Root([]byte("a: 1\nb:\n- c: 1\n  d: 2\n  c: 3\na: 2\n"))
	got := Duplicates(root, 10)
	if len(got) != 2 || got[0] != (Duplicate{"b[0].c", 5, 3, 3}) || got[1] != (Duplicate{"a", 6, 1, 1}) {
		t.Errorf("got %+v", got)
	}
	if got := Duplicates(root, 1); len(got) != 1 {
		t.Errorf("want one, got %+v", got)
	}
}

// Of a document that cannot be parsed the cause is found where it is a marker of a
// merge conflict, a template of Helm or a quote.
func TestCause(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n"
	cases := map[string]struct {
		text                              string
		conflict, template, quote, column int
	}{
		"Conflict":         {text: good + "<<<<<<< HEAD\n  a: b\n=======\n  a: c\n>>>>>>> x\n", conflict: 6},
		"HalfAConflict":    {text: good + "  a: b\n=======\n  a: c\n", conflict: 7},
		"MarkersInText":    {text: good + "  a: |\n    <<<<<<< HEAD\n    =======\n"},
		"LongLine":         {text: "a: |\n========\n"},
		"Template":         {text: good + "  a: b\n  c: {{ .Values.a }}\n", template: 7},
		"TemplateOfLine":   {text: good + "  a: b\n{{- if .Values.a }}\n  c: d\n{{- end }}\n", template: 7},
		"TemplateFirst":    {text: "{{ if .Values.a }}\n" + good + "  c: d\n", template: 1},
		"TemplateInside":   {text: "a:\n  name: {{ .Release.Name }}-x\n", template: 2},
		"TemplateInQuotes": {text: good + "  a: \"{{ .Values.a }}\"\n  b\n  c: d\n"},
		"Quote":            {text: good + "  a: \"b\n  c: d\n", quote: 6, column: 6},
		"SingleQuote":      {text: good + "  a: b\n  c: 'd\n  e: f\n", quote: 7, column: 6},
		"SecondQuote":      {text: good + "  a: [\"x\", \"y]\n", quote: 6, column: 12},
		"NoQuote":          {text: good + "  a: b\n  c\n  e: f\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			document := []byte(c.text)
			if got := Conflict(document); got != c.conflict {
				t.Errorf("conflict: want line %d, got %d", c.conflict, got)
			}
			line := SyntaxErrorLine(document, 0)
			if at, _, ok := UnusableKey(Root(document)); ok {
				line = at
			}
			if got := HelmTemplate(document, line); got != c.template {
				t.Errorf("template: want line %d, got %d", c.template, got)
			}
			if column, ok := Unclosed(document, line); ok != (c.quote > 0) || ok && (line != c.quote || column != c.column) {
				t.Errorf("quote: want %d:%d, got %d:%d, %v", c.quote, c.column, line, column, ok)
			}
		})
	}
}

func TestJoints(t *testing.T) {
	cases := map[string]struct {
		document string
		want     []int
	}{
		"One":          {"apiVersion: v1\nkind: ConfigMap\ndata:\n  kind: a\n  apiVersion: b\n", nil},
		"Two":          {"apiVersion: v1\nkind: ConfigMap\n\n# b\napiVersion: v1\nkind: Secret\n", []int{5}},
		"OtherOrder":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {}\nkind: Secret\napiVersion: v1\n", []int{4}},
		"Three":        {"apiVersion: v1\nkind: A\napiVersion: v1\nkind: B\napiVersion: v1\nkind: C\n", []int{3, 5}},
		"AKeyAgain":    {"apiVersion: v1\nkind: A\nkind: B\n", nil},
		"PartWithNone": {"apiVersion: v1\nkind: A\nmetadata: {}\nmetadata: {}\n", nil},
		"NoMapping":    {"- a\n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ObjectLines(Root([]byte(c.document))); !slices.Equal(got, c.want) {
				t.Errorf("want %v, got %v", c.want, got)
			}
		})
	}
}
