package position

import (
	"strings"
	"testing"
)

// What parsers drop behind the end of a document is found with its line.
func TestBehind(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	cases := map[string]struct {
		text string
		want Rest // without a line where all is read
	}{
		"Whole":               {text: good},
		"Nothing":             {},
		"CommentsAlone":       {text: "# a\n\n"},
		"Header":              {text: "%YAML 1.1\n--- # a\n" + good},
		"MarkerAtTheEnd":      {text: good + "...\n# b\n\n"},
		"MarkerInText":        {text: good + "data:\n  a: |\n    ...\n    b: c\n"},
		"NextDocument":        {text: good + "---\n b: c\nd: e\n"},
		"MarkerThenDocument":  {text: good + "...\n---\nb: c\n"},
		"IndentedWhole":       {text: "  a: b\n  c: d\n# e\n"},
		"Directive":           {text: good + "%YAML 1.1\n"},
		"CarriageReturns":     {text: "a: b\r\nc: d\r\n...\r\n"},
		"List":                {text: "- a\n- b\n"},
		"Brackets":            {text: "{a: b,\nc: d}\n# e\n"},
		"JSON":                {text: "{\"a\": {\n\"b\": []}}\n"},
		"QuoteWithoutIndent":  {text: "  a: \"b\nc\n d\"\n  e: f\n"},
		"Text":                {text: "a\nb\n"},
		"NoYAML":              {text: "a: b\nc\nd: e\n...\nf\n"},
		"FirstLineTooDeep":    {text: " a: b\nc: d\n", want: Rest{Line: 2, Begins: 1, Indent: 1}},
		"LaterLineTooShallow": {text: "\n# a\n  a: b\n  c:\n    d: e\n\n# f\n g: h\n", want: Rest{Line: 8, Begins: 3, Indent: 2}},
		"ListTooDeep":         {text: "  - a\n- b\n", want: Rest{Line: 2, Begins: 1, Indent: 2}},
		"BehindABlockText":    {text: "  a: |\n    b: c\n\n    d\ne: f\n", want: Rest{Line: 5, Begins: 1, Indent: 2}},
		"BehindAQuote":        {text: "  a: \"b\nc\n d\"\ne: \"f\n g\"\n", want: Rest{Line: 4, Begins: 1, Indent: 2}},
		"CannotBeParsed":      {text: "  a: b\nc: [\n", want: Rest{Line: 2, Begins: 1, Indent: 2}},
		"Marker":              {text: good + "... # b\n# c\nkind: d\n", want: Rest{Line: 7, Begins: 1, Marker: 5}},
		"MarkerReturns":       {text: "a: b\r\n...\r\nc: d\r\n", want: Rest{Line: 3, Begins: 1, Marker: 2}},
		"MarkersTwice":        {text: "a: b\n...\n...\nc: d\n", want: Rest{Line: 4, Begins: 1, Marker: 3}},
		"TextBehindDashes":    {text: "a: b\n--- c: d\n"},
		"TabBelow":            {text: "  a: b\nc: d\n\te: f\n", want: Rest{Line: 2, Begins: 1, Indent: 2}},
		"NoColonBelow":        {text: "  a: b\nc: d: e\n", want: Rest{Line: 2, Begins: 1, Indent: 2}},
		"TextBelow":           {text: "  a: b\nc\nd: e\n", want: Rest{Line: 2, Begins: 1, Indent: 2}},
		"BehindADirective":    {text: good + "%YAML 1.1\na: b\n", want: Rest{Line: 6, Begins: 1, Marker: 5}},
		"SecondObject":        {text: "{\n\"a\": 1\n}\n{\n\"a\": 2\n}\n", want: Rest{Line: 4}},
		"BehindBrackets":      {text: "{\"a\": 1}\ndata: {a: b}\n", want: Rest{Line: 2}},
		"BracketTooMany":      {text: "{\"a\": {\"b\": 1}}}\n", want: Rest{Line: 1, Closes: true}},
		"BracketBelow":        {text: "{\n\"a\": 1\n}\n}\n", want: Rest{Line: 4, Closes: true}},
		"BehindText":          {text: "a\n# b\nc: d\n", want: Rest{Line: 3}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := IgnoredLine([]byte(c.text)); got != c.want || ok != (c.want.Line > 0) {
				t.Errorf("want %+v, got %+v, %v", c.want, got, ok)
			}
		})
	}
	long := "  a: |\n" + strings.Repeat("    b\n", 5000) + strings.Repeat("# c\n", 5000) + "d: e\n"
	if got, _ := IgnoredLine([]byte(long)); got.Line != 10002 {
		t.Errorf("the end is found below long texts, got %+v", got)
	}
}

// The search for the first line is bounded, whatever stands in the file.
func BenchmarkBehind(b *testing.B) {
	document := []byte("  a: \"" + strings.Repeat("b\n", 100_000) + "\"\nd: e\n")
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		IgnoredLine(document)
	}
}

// A document that is read whole costs next to nothing.
func BenchmarkBehindNothing(b *testing.B) {
	document := []byte("apiVersion: v1\nkind: ConfigMap\ndata:\n" + strings.Repeat("  a: 100% of it...\n", 10_000))
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		IgnoredLine(document)
	}
}

// Where something is left over it stands in the text, and documents that are read
// whole have no rest.
func FuzzBehind(f *testing.F) {
	for _, seed := range []string{" a: b\nc: d\n", "a: b\n...\nc: d\n", "{}\n{}\n", "{\"a\": 1}}\n", "- a\n---\nb\n", "  a: \"b\nc\"\nd: [\n", "%\n", "...", "a\r...\rb", "{\n0\rY}YYY}Y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := []byte(text)
		rest, ok := IgnoredLine(data)
		if !ok {
			return
		}
		if lines := len(lineStarts(data)); rest.Line < 1 || rest.Line > lines || rest.Begins > lines || rest.Marker > lines {
			t.Errorf("of %d lines: %+v", lines, rest)
		}
		if !hasIgnoredText(data) {
			t.Errorf("nothing is left over: %+v", rest)
		}
	})
}

// readWhole never says that a text is read whole of which something is left over.
func FuzzReadWhole(f *testing.F) {
	for _, seed := range []string{"a: b\n", "a: b\r...\rc", "- a\n%b\n", "# a\n---\nb: c\n", "{\"a\": 1}", "[1]\n2", "a: 'b\n...\n'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := []byte(text)
		if len(Documents(data)) > 1 || strings.Contains(text, "\n---") || strings.Contains(text, "\r") {
			return
		}
		if hasIgnoredText(data) && readWhole(data) {
			t.Errorf("%q has a rest", text)
		}
	})
}
