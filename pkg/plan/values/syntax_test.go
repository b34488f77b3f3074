package values

import "testing"

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		line       int
	}{
		"NoTemplate":  {text: "a $ {{ b }}"},
		"Fine":        {text: "${ .ClusterLabels.env | default \"x\" | upper }"},
		"NoFunction":  {text: "a\nb ${ .ClusterLabels.env | fooo }", want: `there is no function "fooo"`, line: 2},
		"Unclosed":    {text: "${ .ClusterLabels.env", want: "the } that closes ${ is missing", line: 1},
		"UnclosedIn":  {text: "a\npre ${ .ClusterLabels.env post\nb", want: "the } that closes ${ is missing", line: 2},
		"Unquoted":    {text: `${ "canary`, want: "unterminated quoted string", line: 1},
		"Comment":     {text: "${/* } */}${ .x", want: "the } that closes ${ is missing", line: 1},
		"NoEnd":       {text: "x\n${ if .ClusterLabels }", want: "the ${ end } that closes an if, with or range is missing", line: 2},
		"NoEndBehind": {text: "${ range .x }\n\nb", want: "the ${ end } that closes an if, with or range is missing", line: 3},
		"Empty":       {text: "${ if true }${ end }${ end }", want: "unexpected {{end}}", line: 1},
		"Secret":      {text: `${ "canary }`, want: "unterminated quoted string", line: 1},
		"SecretAgain": {text: `${ "a" $canary }`, want: `undefined variable …`, line: 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := Parse(c.text)
			switch {
			case err == nil && c.want == "":
			case err == nil || err.Text != c.want || err.Line != c.line:
				t.Errorf("want %q in line %d, got %+v", c.want, c.line, err)
			}
		})
	}
}

func TestParseTree(t *testing.T) {
	over := map[string]any{"a": "${ if .ClusterLabels.env }", "b": []any{"${ end }"}}
	if err := ParseTree(over); err != nil {
		t.Errorf("a template may reach over several texts: %v", err)
	}
	if err := ParseTree(map[string]any{"a": map[string]any{"${ nofunc }": 1}}); err == nil || err.Function != "nofunc" {
		t.Errorf("keys are templates too: %v", err)
	}
}
