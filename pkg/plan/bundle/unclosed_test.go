package bundle

import "testing"

func TestUnclosed(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		line int // 0: all are closed
		word string
	}{
		"Outer":    {"the inner one is closed", "a\n{{- if .A }}\n  {{- range .B }}\n  {{- end }}\nb\n", 2, "if"},
		"Inner":    {"the end is indented as the outer one", "a\n{{- if .A }}\n  {{- range .B }}\n  b\n{{- end }}\n", 3, "range"},
		"OneLine":  {"what is closed in its line does not count", "{{ with .A }}{{ if .B }}b{{ end }}\nc\n", 1, "with"},
		"Same":     {"without a difference in indentation it is the one that is left", "{{ if .A }}\n{{ with .B }}\n{{ end }}\n", 1, "if"},
		"Comment":  {"a comment opens nothing", "{{/* if\n */}}\n{{- define \"a\" }}\n", 3, "define"},
		"Text":     {"a text opens nothing", "{{ \"{{ if\" }}{{ if eq .A \"}}\" }}\n", 1, "if"},
		"Closed":   {"all are closed", "{{ if .A }}{{ else if .B }}{{ else }}{{ end }}{{ iffy }}\n", 0, ""},
		"NoAction": {"the action itself is not closed", "{{ if .A \n", 0, ""},
		"Indented": {"ends need not be indented as what they close", "{{ if .A }}\n  {{ with .B }}\n{{ end }}\n{{ end }}\n", 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := unclosed(c.text)
			if got.line != c.line || got.word != c.word || ok != (c.line > 0) {
				t.Errorf("%s: want %q in line %d, got %q in line %d, %v", c.why, c.word, c.line, got.word, got.line, ok)
			}
		})
	}
}
