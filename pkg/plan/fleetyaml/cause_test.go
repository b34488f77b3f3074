package fleetyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the parser says of a mistake has its usual cause below it.
func TestUsualCauses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"TooFar": {
			"helm:\n  chart: a\n   values: {}\n",
			"f:3:1: error: YAML: mapping values are not allowed in this context [yaml] (usually the line is indented wrongly: it begins with 3 spaces, line 2 with 2 spaces)",
		},
		"TooNear": {
			"helm:\n  chart: a\n\n # more\n values: {}\n",
			"f:5:1: error: YAML: did not find expected key [yaml] (usually the line is indented wrongly: it begins with 1 space, line 2 with 2 spaces)",
		},
		"KeysInOneLine": {
			"helm:\n  values: a: b\n",
			`f:2:1: error: YAML: mapping values are not allowed in this context [yaml] (a text with ": " in it needs quotes, and each key a line of its own)`,
		},
		"ColonInAText": {
			"helm:\n  values:\n    a: is this: that\n",
			`f:3:1: error: YAML: mapping values are not allowed in this context [yaml] (a text with ": " in it needs quotes, and each key a line of its own)`,
		},
		"ColonMissing": {
			"helm\n  chart: a\nnamespace: b\n",
			"f:2:1: error: YAML: mapping values are not allowed in this context [yaml] (usually the line is indented wrongly: it begins with 2 spaces, line 1 with 0 spaces)",
		},
		"ColonMissingBelow": {
			"namespace: b\nhelm\n  chart: a\n",
			"f:2:1: error: YAML: could not find expected ':' [yaml] (usually a key has no colon behind it: here or in line 1)",
		},
		"BehindQuotes": {
			"namespace: \"a\" b\nhelm: {}\n",
			"f:1:1: error: YAML: did not find expected key [yaml] (a text of which a part is in quotes needs quotes as a whole)",
		},
		"Bracket": {
			"helm:\n  valuesFiles: [a, b\n",
			"f:2:1: error: YAML: did not find expected ',' or ']' [yaml] (usually a bracket is opened here and not closed, or a text in brackets needs quotes)",
		},
		"Anchor": {"namespace: *a\n", "f:1:1: error: YAML: unknown anchor 'a' referenced [yaml] (a text that begins with * needs quotes)"},
		"Token":  {"namespace: @a\n", "f:1:1: error: YAML: found character that cannot start any token [yaml] (a text that begins with @, ` or % needs quotes)"},
		"Items": {
			"- a\nnamespace: b\n",
			"f:2:1: error: YAML: did not find expected '-' indicator [yaml] (usually the line, or one above it, is indented wrongly)",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, found := Parse("f", []byte(c.text))
			if diff := cmp.Diff([]string{c.want}, texts(found)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
