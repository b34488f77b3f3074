package position

import (
	"bytes"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Document is one of several in a file.
type Document struct {
	Text   []byte
	Before int // lines of the file before it
}

// Documents takes a file apart at lines that are three dashes, and perhaps a
// comment, as agents do.
func Documents(data []byte) []Document {
	var list []Document
	start, at, number, before := 0, 0, 0, 0
	for line := range bytes.Lines(data) {
		number++
		at += len(line)
		if dashes, more := separator(line); dashes && !more {
			list = append(list, Document{data[start : at-len(line)], before})
			start, before = at, number
		}
	}
	return append(list, Document{data[start:], before})
}

// Unseparated returns the first line, from 1, that begins with three dashes and goes on
// with something else than a comment, or 0: agents refuse it.
func Unseparated(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if _, more := separator(line); more {
			return number
		}
	}
	return 0
}

// separator reports whether a line begins with three dashes, and whether more than a comment
// is behind them.
func separator(line []byte) (dashes, more bool) {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	rest = bytes.TrimSpace(rest)
	return ok, ok && len(rest) > 0 && rest[0] != '#'
}

// Root returns the value of a document with its places; nil for one that is empty or cannot
// be parsed.
func Root(document []byte) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal(document, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// Locate returns the line and column, from 1, of what keys lead to below a value. It returns
// those of the key itself where the last key is that of a mapping and asKey is set, or
// where the value is a mapping or list of its own lines. Otherwise it returns those of the
// value. Keys are strings, and ints for lists. Where they lead nowhere, it returns the
// place of the last key that exists. Without a value it returns 0, 0.
func Locate(root *yaml.Node, asKey bool, keys ...any) (line, column int) {
	line, column, _ = Find(root, asKey, keys...)
	return line, column
}

// Find is Of; ok is false where the keys lead nowhere.
func Find(root *yaml.Node, asKey bool, keys ...any) (line, column int, ok bool) {
	if root == nil {
		return 0, 0, false
	}
	n, at := root, root
	for i, key := range keys {
		name, value := findEntry(n, key)
		if value == nil {
			return at.Line, at.Column, false
		}
		n, at = value, value
		if name != nil && (asKey || i+1 < len(keys) || isBlock(value)) {
			at = name
		}
	}
	return at.Line, at.Column, true
}

// Text returns the single value that keys lead to below a value.
func Text(root *yaml.Node, keys ...any) (text string, ok bool) {
	n := root
	for _, key := range keys {
		if n == nil {
			return "", false
		}
		_, n = findEntry(n, key)
	}
	if n == nil || target(n).Kind != yaml.ScalarNode {
		return "", false
	}
	return target(n).Value, true
}

// Value returns what a key leads to in a mapping, or an index in a list; nil where it leads
// to nothing.
func Value(n *yaml.Node, key any) *yaml.Node {
	if n == nil {
		return nil
	}
	_, value := findEntry(n, key)
	return value
}

// Names returns the keys of a mapping in their order. They are nil for anything else, and
// for a mapping that others are merged into.
func Names(n *yaml.Node) []*yaml.Node {
	if n == nil || target(n).Kind != yaml.MappingNode {
		return nil
	}
	n = target(n)
	var names []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			return nil
		}
		names = append(names, n.Content[i])
	}
	return names
}

// ShiftLines adds lines to the places in a value.
func ShiftLines(root *yaml.Node, lines int) {
	root.Line += lines
	for _, n := range root.Content {
		ShiftLines(n, lines)
	}
}

// isBlock reports whether a value is best shown at its key: it may begin in a line
// below.
func isBlock(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode
}

// findEntry is the key and value of a mapping, or the value alone of a list. Of several equal
// keys it returns the last one, and it prefers keys of the mapping to merged ones.
func findEntry(n *yaml.Node, key any) (name, value *yaml.Node) {
	n = target(n)
	switch k := key.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && k >= 0 && k < len(n.Content) {
			return nil, n.Content[k]
		}
	case string:
		if n.Kind == yaml.MappingNode {
			return entryOfMapping(n, k)
		}
	}
	return nil, nil
}

func entryOfMapping(n *yaml.Node, key string) (name, value *yaml.Node) {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value == key || (key == "true" || key == "false") && jsonKey(n.Content[i]) == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if merged := n.Content[i]; merged.Tag == "!!merge" {
			if name, value = fromMerge(n.Content[i+1], key); value != nil {
				return name, value
			}
		}
	}
	return nil, nil
}

func fromMerge(n *yaml.Node, key string) (name, value *yaml.Node) {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		return plainEntry(n, key)
	}
	for _, e := range n.Content {
		if name, value = plainEntry(target(e), key); value != nil {
			return name, value
		}
	}
	return nil, nil
}

func plainEntry(n *yaml.Node, key string) (name, value *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// target resolves an alias to its node.
func target(n *yaml.Node) *yaml.Node {
	for hops := 0; n.Kind == yaml.AliasNode && n.Alias != nil && hops < 10; hops++ {
		n = n.Alias
	}
	return n
}

// A Duplicate is a key that stands in a mapping again.
type Duplicate struct {
	Key          string // with the keys above it
	Line, Column int
	First        int // line of the first
}

// Duplicates returns the keys of a value that stand twice in a mapping, at most limit.
func Duplicates(root *yaml.Node, limit int) []Duplicate {
	var list []Duplicate
	var visit func(n *yaml.Node, where string)
	visit = func(n *yaml.Node, where string) {
		if n == nil || len(list) >= limit {
			return
		}
		if n.Kind == yaml.SequenceNode {
			for i, e := range n.Content {
				visit(e, where+"["+strconv.Itoa(i)+"]")
			}
			return
		}
		seen := map[string]int{}
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			key, name := n.Content[i], n.Content[i].Value
			if where != "" {
				name = where + "." + name
			}
			if first, twice := seen[key.Value]; twice && key.Tag != "!!merge" && len(list) < limit {
				list = append(list, Duplicate{Key: name, Line: key.Line, Column: key.Column, First: first})
			}
			seen[key.Value] = key.Line
			visit(n.Content[i+1], name)
		}
	}
	visit(root, "")
	return list
}

// ObjectLines returns the lines, from 1, at which another object begins in a document: at a key
// of the outermost mapping that stands there again. A document is one object, and has no
// joints, unless each part between them has apiVersion and kind.
func ObjectLines(root *yaml.Node) []int {
	var lines []int
	part := map[string]bool{}
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		if part[key.Value] {
			if !isWhole(part) {
				return nil
			}
			lines = append(lines, key.Line)
			clear(part)
		}
		part[key.Value] = true
	}
	if !isWhole(part) {
		return nil
	}
	return lines
}

// isWhole reports whether keys say what kind of object they belong to.
func isWhole(keys map[string]bool) bool { return keys["apiVersion"] && keys["kind"] }

// Pointer returns the keys of a JSON pointer: numbers are indexes of lists.
func Pointer(text string) []any {
	var keys []any
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if n, err := strconv.Atoi(part); err == nil {
			keys = append(keys, n)
		} else if text != "" {
			keys = append(keys, part)
		}
	}
	return keys
}

// Path returns keys for people: spec.containers[0].name, and what could be mistaken in
// brackets.
func Path(keys []any) string {
	var b strings.Builder
	for _, key := range keys {
		switch k := key.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(k) + "]")
		case string:
			k = ShortName(k)
			if strings.ContainsAny(k, "./[]\" ") {
				b.WriteString("[" + k + "]")
				continue
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(k)
		}
	}
	return b.String()
}

// ShortName returns a name as far as it is shown.
func ShortName(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}
