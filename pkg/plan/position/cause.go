package position

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// conflictMarker is a line that git writes into a file that it cannot merge.
var conflictMarker = regexp.MustCompile(`^(<{7}|>{7}|\|{7})( |$)|^={7}$`)

// ConflictText is the message for a marker of a merge conflict.
const ConflictText = "a marker of a merge conflict: git could not merge this file"

// Conflict returns the first line, from 1, that is a marker of a merge conflict, or 0.
func Conflict(document []byte) int {
	number := 0
	for line := range bytes.Lines(document) {
		number++
		if conflictMarker.Match(bytes.TrimRight(line, "\r\n")) {
			return number
		}
	}
	return 0
}

// noEnd is the parser's error for a quote that is not closed.
const noEnd = "found unexpected end of stream"

// Unclosed returns the column, from 1, of the quote that a line, from 1, opens and that no
// line closes before the document stops being YAML. ok is false where the line opens none.
// line is the result of SyntaxErrorLine.
func Unclosed(document []byte, line int) (column int, ok bool) {
	starts := lineStarts(document)
	if line < 1 || line > len(starts) || len(document) > maxSearched {
		return 0, false
	}
	start, end := starts[line-1], len(document)
	if line < len(starts) {
		end = starts[line]
	}
	if err := parse(document[:end]); err == nil || !strings.Contains(err.Error(), noEnd) {
		return 0, false
	}
	quote, column := byte(0), 0
	for i, c := range document[start:end] {
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, column = c, i+1
		}
	}
	return column, quote != 0
}

// unquotedTemplate is a line that begins, or whose value begins, with a template of
// Helm.
var unquotedTemplate = regexp.MustCompile(`^\s*(- +)*([^\s#"']+: +)?\{\{`)

// HelmTemplate returns the line, from 1, of the template of Helm for which a document
// cannot be parsed, or 0 where that has another cause. line is the result of SyntaxErrorLine.
func HelmTemplate(document []byte, line int) int {
	number, last := 0, 0
	for text := range bytes.Lines(document) {
		number++
		switch blank := len(bytes.TrimSpace(text)) == 0; {
		case number == line && bytes.Contains(text, []byte("{{")):
			return line
		case number >= line:
			return last
		case unquotedTemplate.Match(text):
			last = number
		case !blank:
			last = 0
		}
	}
	return 0
}

// UnusableKey returns the place of the first key below a value that is a mapping or a list;
// ok is false where there is none.
func UnusableKey(root *yaml.Node) (line, column int, ok bool) {
	if root == nil {
		return 0, 0, false
	}
	for i, n := range root.Content {
		if root.Kind == yaml.MappingNode && i%2 == 0 && target(n).Kind != yaml.ScalarNode {
			return n.Line, n.Column, true
		}
		if line, column, ok = UnusableKey(n); ok {
			return line, column, true
		}
	}
	return 0, 0, false
}

// Scalars visits each single value below a value, with the keys that lead to it:
// strings, and ints for lists. Keys of mappings and aliases are not visited.
func Scalars(root *yaml.Node, visit func(n *yaml.Node, keys []any)) {
	var walk func(n *yaml.Node, keys []any)
	walk = func(n *yaml.Node, keys []any) {
		switch n.Kind {
		case yaml.ScalarNode:
			visit(n, keys)
		case yaml.SequenceNode:
			for i, e := range n.Content {
				walk(e, append(keys, i))
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], append(keys, n.Content[i].Value))
			}
		}
	}
	if root != nil {
		walk(root, nil)
	}
}

// booleans are the words that are booleans in YAML 1.1, beside true and false.
var booleans = map[string]string{"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}

// jsonKey is the key that a word becomes in JSON where it stands as a key without
// quotes.
func jsonKey(key *yaml.Node) string {
	as, ok := booleans[strings.ToLower(key.Value)]
	lower, upper := strings.ToLower(key.Value), strings.ToUpper(key.Value)
	usual := key.Value == lower || key.Value == upper || key.Value == upper[:1]+lower[1:]
	if key.Kind != yaml.ScalarNode || key.Style != 0 || !ok || !usual {
		return key.Value
	}
	return as
}

// BooleanKeys visits each key below a value that is a boolean in YAML 1.1 and is not
// written as one, with the keys that lead to it and the boolean that it becomes.
func BooleanKeys(root *yaml.Node, visit func(key *yaml.Node, keys []any, counts string)) {
	Keys(root, func(key *yaml.Node, keys []any) {
		if as := jsonKey(key); as != key.Value {
			visit(key, keys, as)
		}
	})
}

// Keys visits each key of mappings below a value, with the keys that lead to it, which
// are valid until the visit ends.
func Keys(root *yaml.Node, visit func(key *yaml.Node, keys []any)) {
	var walk func(n *yaml.Node, keys []any)
	walk = func(n *yaml.Node, keys []any) {
		for i, e := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode:
				walk(e, append(keys, i))
			case n.Kind == yaml.MappingNode && i%2 == 0:
				below := append(keys, e.Value)
				visit(e, below)
				walk(n.Content[i+1], below)
			}
		}
	}
	if root != nil {
		walk(root, nil)
	}
}

// KeysAt returns the keys below a value that lead to the last single value which begins in
// a line, from 1, or before it; nil where there is none.
func KeysAt(root *yaml.Node, line int) []any {
	var last []any
	Scalars(root, func(n *yaml.Node, keys []any) {
		if n.Line <= line {
			last = append(last[:0], keys...)
		}
	})
	return last
}
