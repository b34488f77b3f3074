package position

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// ofYAML is an action that ends with toYaml, or with toYaml and indent.
	ofYAML = regexp.MustCompile(`\{\{-?\s*(?:[^{}|]*\|\s*)?toYaml\b[^{}|]*(\|\s*indent\s+\d+\s*)?\}\}`)
	// onlyKey is a key in front of an action.
	onlyKey = regexp.MustCompile(`^(?:- +)*[^\s#:{}]+:\s*$`)
)

// Unindented returns the first action of a template of Helm that writes several lines of
// YAML and indents only the first of them: toYaml without nindent, below a key or behind
// it. hint says what to write instead. line is 0 where there is none.
func Unindented(template []byte) (line, column int, hint string) {
	number := 0
	for text := range strings.Lines(string(template)) {
		number++
		at := ofYAML.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		before := text[:at[0]]
		indent := len(before) - len(strings.TrimLeft(before, " "))
		switch rest := before[indent:]; {
		case rest == "" && indent > 0:
		case onlyKey.MatchString(rest):
			indent += 2
		default:
			continue
		}
		why := "toYaml writes several lines and nindent is missing"
		if at[2] >= 0 {
			why = "indent indents the first line twice"
		}
		return number, at[0] + 1, fmt.Sprintf("%s: write {{- toYaml ... | nindent %d }}", why, indent)
	}
	return 0, 0, ""
}
