package position

import "testing"

func TestUnindented(t *testing.T) {
	const four = "toYaml writes several lines and nindent is missing: write {{- toYaml ... | nindent 4 }}"
	cases := map[string]struct {
		why      string
		template string
		line     int
		hint     string
	}{
		"Below":    {"the second line begins at the margin", "a:\n  b:\n    {{ toYaml .Values.b }}\n", 3, four},
		"Trimmed":  {"the first line stands behind the key", "a:\n    {{- toYaml .Values.b }}\n", 2, four},
		"Behind":   {"a mapping cannot begin behind a key", "a:\n  b: {{ .Values.b | toYaml }}\n", 2, four},
		"Indent":   {"the first line is indented already", "a:\n    {{ toYaml .Values.b | indent 4 }}\n", 2, "indent indents the first line twice: write {{- toYaml ... | nindent 4 }}"},
		"Right":    {"nindent begins a new line", "a:\n  {{- toYaml .Values.b | nindent 2 }}\n", 0, ""},
		"AtMargin": {"indent at the margin is right", "a:\n{{ toYaml .Values.b | indent 2 }}\n{{ toYaml .Values.c }}\n", 0, ""},
		"Text":     {"the result is one line", "a: {{ toYaml .Values.b | quote }}\n", 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if line, _, hint := Unindented([]byte(c.template)); line != c.line || hint != c.hint {
				t.Errorf("%s: want line %d, %q, got %d, %q", c.why, c.line, c.hint, line, hint)
			}
		})
	}
}
