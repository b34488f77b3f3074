package position

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"

	yamlv2 "go.yaml.in/yaml/v2"
	"gopkg.in/yaml.v3"
)

// A Rest is what stands in a document behind the end of its value: parsers read the
// value and never look at what follows.
type Rest struct {
	Line int // the first line, from 1, that is left over
	// Begins is the line of the first key or item of a mapping or list that is written
	// without brackets, and 0 for another value. Indent are the spaces before it.
	Begins, Indent int
	// Marker is the line "..." that ends the document, or 0.
	Marker int
	// Closes reports whether one bracket too many at the end is all that is left over.
	Closes bool
}

// blockStart is a line that begins a mapping or list that is not indented and that is
// written without brackets. Only a line of dots, of dashes or a directive ends one.
var blockStart = regexp.MustCompile(`^(-(\s|$)|[A-Za-z_][\w./-]*:(\s|$))`)

// IgnoredLine returns the first line that the parser of agents ignores in a text; ok is false
// where it reads all. Comments, a line "..." or directives at the end, and documents behind
// a line of three dashes are no such lines. The text can be parsed as far as it is read.
func IgnoredLine(text []byte) (rest Rest, ok bool) {
	if readWhole(text) || !hasIgnoredText(text) {
		return Rest{}, false
	}
	starts := lineStarts(text)
	head, line := text, 0
	root, over := split(head)
	if root == nil { // this package looks further ahead than agents do, and cannot parse the rest
		line = min(max(SyntaxErrorLine(text, lineOf(parse(text))), 1), len(starts))
		head = text[:starts[line-1]]
		root, over = split(head)
	}
	if root == nil {
		return Rest{Line: line}, true
	}
	within := func(line int) int { return min(line, len(starts)) } // a carriage return ends a line for the parser alone
	if isBlock(root) && root.Style&yaml.FlowStyle == 0 {
		rest.Begins, rest.Indent = within(root.Line), root.Column-1
	}
	at, marker := firstBehind(head, rest, within(lastLine(root)))
	rest.Line, rest.Marker = line, marker
	if over && at > 0 {
		rest.Line = at
	}
	if rest.Line == 0 || bytes.HasPrefix(text[starts[within(rest.Line)-1]:], []byte("---")) {
		return Rest{}, false
	}
	rest.Line, rest.Closes = within(rest.Line), closesTooMuch(text)
	return rest, true
}

// An anyValue is a document of which only the end matters.
type anyValue struct{}

// UnmarshalYAML leaves the value alone.
func (anyValue) UnmarshalYAML(func(any) error) error { return nil }

// hasIgnoredText reports whether more than comments follows the first document of a text, for
// the parser of agents.
func hasIgnoredText(text []byte) bool {
	decoder := yamlv2.NewDecoder(bytes.NewReader(text))
	return decoder.Decode(&anyValue{}) == nil && !errors.Is(decoder.Decode(&anyValue{}), io.EOF)
}

// readWhole reports whether a look at the text alone, without a parser, shows that
// nothing is left over: most files are JSON, or begin with a key that is not indented.
func readWhole(text []byte) bool {
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimRight(line, " \t\r\n"); {
		case len(line) == 0, line[0] == '#', bytes.Equal(line, []byte("---")):
			continue
		case line[0] == '{' || line[0] == '[':
			return json.Valid(text)
		}
		return blockStart.Match(line) && !lineBegins(text, "...") && !lineBegins(text, "%")
	}
	return true
}

// lineBegins reports whether a line below the first one begins with a mark.
func lineBegins(text []byte, mark string) bool {
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], []byte(mark))
		if next < 0 {
			return false
		}
		if at += next; at > 0 && bytes.IndexByte([]byte("\n\r\x85\xa8\xa9"), text[at-1]) >= 0 { // all that end a line in YAML
			return true
		}
	}
}

// split is the value of the first document of a text; over reports whether more than
// comments follows. root is nil where the document is not YAML.
func split(text []byte) (root *yaml.Node, over bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	if decoder.Decode(&doc) != nil || len(doc.Content) == 0 {
		return nil, false
	}
	return doc.Content[0], !errors.Is(decoder.Decode(&next), io.EOF)
}

// lastLine is the last line in which a value begins below a value.
func lastLine(root *yaml.Node) int {
	last := root.Line
	for _, n := range root.Content {
		last = max(last, lastLine(n))
	}
	return last
}

// firstBehind is the first line that is left over, and the line of dots, or the
// directive, above it. Line is 0 where nothing but that is left over. from is the last
// line in which a value of the document begins. Parsers do not name the end of a
// document, so each line that may be the first one is tried.
func firstBehind(text []byte, rest Rest, from int) (line, marker int) {
	budget, closed, number, end, tried := searchBytes+4*len(text), false, 0, 0, from
	for content := range bytes.Lines(text) {
		number++
		end += len(content)
		if number >= from && isMarker(content) {
			marker = number
			continue
		}
		if number < from || number > from && !mayBegin(content, rest, marker) {
			continue
		}
		tried = number
		if budget -= end; budget < 0 {
			return tried, marker
		}
		root, over := split(text[:end])
		if over || closed && root == nil {
			return tried, marker
		}
		closed = root != nil
	}
	if marker > 0 {
		return 0, marker
	}
	return tried, 0
}

// isMarker reports whether a line ends a document, or is a directive for the next.
func isMarker(line []byte) bool {
	dots, ok := bytes.CutPrefix(line, []byte("..."))
	dots = bytes.TrimSpace(dots)
	return ok && (len(dots) == 0 || dots[0] == '#') || line[0] == '%'
}

// mayBegin reports whether a line may be the first one that is left over.
func mayBegin(line []byte, rest Rest, marker int) bool {
	blank := bytes.TrimSpace(line)
	switch {
	case len(blank) == 0 || blank[0] == '#':
		return false
	case marker > 0 || rest.Begins == 0:
		return true
	}
	return len(line)-len(bytes.TrimLeft(line, " ")) < rest.Indent || bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("..."))
}

// closesTooMuch reports whether a text is read whole without its last bracket.
func closesTooMuch(text []byte) bool {
	text = bytes.TrimSpace(text)
	if !bytes.HasSuffix(text, []byte("}")) && !bytes.HasSuffix(text, []byte("]")) {
		return false
	}
	return parse(text[:len(text)-1]) == nil && !hasIgnoredText(text[:len(text)-1])
}
