package fleetyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const blockIn3 = "the text of the block that begins in line 3 has to be indented deeper than its key"

const ofDashes = "a line that separates documents is exactly three dashes"

// What the parser says of a mistake has its usual cause below it.
func TestUsualCauses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"TooFar": {
			"helm:\n  chart: a\n   values: {}\n",
			"f:3:1: error: YAML: probably the line is indented wrongly: it begins with 3 spaces, line 2 with 2 spaces (mapping values are not allowed in this context) [yaml]",
		},
		"TooNear": {
			"helm:\n  chart: a\n\n # more\n values: {}\n",
			"f:5:1: error: YAML: probably the line is indented wrongly: it begins with 1 space, line 2 with 2 spaces (did not find expected key) [yaml]",
		},
		"KeysInOneLine": {
			"helm:\n  values: a: b\n",
			`f:2:1: error: YAML: a text with ": " in it needs quotes, and each key a line of its own (mapping values are not allowed in this context) [yaml]`,
		},
		"ColonInAText": {
			"helm:\n  values:\n    a: is this: that\n",
			`f:3:1: error: YAML: a text with ": " in it needs quotes, and each key a line of its own (mapping values are not allowed in this context) [yaml]`,
		},
		"ColonMissing": {
			"helm\n  chart: a\nnamespace: b\n",
			"f:1:1: error: YAML: probably the key has no colon behind it (mapping values are not allowed in this context) [yaml]",
		},
		"BelowAnItem": {
			"helm:\n  valuesFiles:\n  - a.yaml\n   values: {}\n",
			"f:4:1: error: YAML: probably the line is indented wrongly: it begins with 3 spaces, line 3 with 2 spaces (mapping values are not allowed in this context) [yaml]",
		},
		"BelowAnItemAtItsText": {
			"helm:\n  valuesFrom:\n  - secretKeyRef\n    name: a\n",
			"f:4:1: error: YAML: probably the line is indented wrongly, or line 3 has a key without a colon behind it (mapping values are not allowed in this context) [yaml]",
		},
		"BelowAnItemAtTheLeft": {
			"dependsOn:\n- a\n namespace: b\n",
			"f:3:1: error: YAML: probably the line is indented wrongly: it begins with 1 space, line 2 with 0 spaces (mapping values are not allowed in this context) [yaml]",
		},
		"TextOfSeveralLines": {
			"helm:\n  chart: a\n    of the shop\n    values: {}\n",
			"f:4:1: error: YAML: probably the line, or one above it, is indented wrongly (mapping values are not allowed in this context) [yaml]",
		},
		"BlockText": {
			"helm:\n  values:\n    a: |\n    one line\n    two lines\n  chart: a\n",
			"f:4:1: error: YAML: " + blockIn3 + " (could not find expected ':') [yaml]",
		},
		"BlockTextWithColon": {
			"helm:\n  values:\n    a: |+ # a script\n\n    # here\n    echo one\n    two: three\n",
			"f:6:1: error: YAML: " + blockIn3 + " (could not find expected ':') [yaml]",
		},
		"BlockTextOfAnItem": {
			"helm:\n  values:\n  - a: >-\n    one line\n    two lines\n",
			"f:4:1: error: YAML: " + blockIn3 + " (could not find expected ':') [yaml]",
		},
		"BlockTextAtTheLeft": {
			"helm:\n  values:\n    a: |\none line\ntwo lines\n",
			"f:4:1: error: YAML: " + blockIn3 + " (could not find expected ':') [yaml]",
		},
		"ColonMissingBelowBlockText": {
			"a: |\n  one line\nhelm\n  chart: a\nb: c\n",
			"f:3:1: error: YAML: probably a key has no colon behind it: here or in line 2 (could not find expected ':') [yaml]",
		},
		"FourDashes": {
			"namespace: b\n----\nnamespace: c\n",
			"f:2:1: error: YAML: " + ofDashes + " (could not find expected ':') [yaml]",
		},
		"TwoDashes": {
			"namespace: b\n-- # next\nnamespace: c\n",
			"f:2:1: error: YAML: " + ofDashes + " (could not find expected ':') [yaml]",
		},
		"DashesFirst": {
			"-----\nnamespace: b\n",
			"f:1:1: error: YAML: " + ofDashes + " (mapping values are not allowed in this context) [yaml]",
		},
		"NoBracket": {"helm: {\n", "f:1:1: error: YAML: probably a bracket is opened and not closed, or closed and not opened (did not find expected node content) [yaml]"},
		"ColonMissingBelow": {
			"namespace: b\nhelm\n  chart: a\n",
			"f:2:1: error: YAML: probably a key has no colon behind it: here or in line 1 (could not find expected ':') [yaml]",
		},
		"BehindQuotes": {
			"namespace: \"a\" b\nhelm: {}\n",
			"f:1:1: error: YAML: a text of which a part is in quotes needs quotes as a whole (did not find expected key) [yaml]",
		},
		"Bracket": {
			"helm:\n  valuesFiles: [a, b\n",
			"f:2:1: error: YAML: probably a bracket is opened here and not closed, or a text in brackets needs quotes (did not find expected ',' or ']') [yaml]",
		},
		"Anchor": {"namespace: *a\n", "f:1:1: error: YAML: a text that begins with * needs quotes (unknown anchor 'a' referenced) [yaml]"},
		"Token":  {"namespace: @a\n", "f:1:1: error: YAML: a text that begins with @, ` or % needs quotes (found character that cannot start any token) [yaml]"},
		"FirstLineTooFar": {
			"# a\n  namespace: b\n\nhelm: {}\n",
			"f:4:1: error: YAML: probably the line is indented wrongly: it begins with 0 spaces, line 2 with 2 spaces (the document ends above it) [yaml]",
		},
		"BehindDots":     {"namespace: b\n... # c\nhelm: {}\n", "f:3:1: error: YAML: line 2 ends the document, and what follows is not read [yaml]"},
		"BehindBrackets": {"{namespace: b}\nhelm: {}\n", "f:2:1: error: YAML: the document ends with the bracket, quote or text above, and what follows is not read [yaml]"},
		"BracketTooMany": {"{namespace: b}}\n", "f:1:1: error: YAML: a bracket is closed that is not opened [yaml]"},
		"Conflict":       {"{namespace: b}\n<<<<<<< HEAD\n", "f:2:1: error: YAML: a marker of a merge conflict: git could not merge this file [yaml]"},
		"Items": {
			"- a\nnamespace: b\n",
			"f:2:1: error: YAML: probably the line, or one above it, is indented wrongly (did not find expected '-' indicator) [yaml]",
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
