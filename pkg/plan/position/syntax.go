// Package position finds the places in YAML files that parsers do not name, or
// name wrongly: of a document in a file, of a value in a document, and of the
// mistake for which a document cannot be parsed.
package position

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of the search for one mistake: committers may push thousands of files
// that are broken.
const (
	maxSearched = 1 << 20   // bytes of a document
	searchBytes = 128 << 10 // bytes that are parsed, beside four times the document
	searchLines = 2         // lines that are tried before the parser's other hint is
)

// errorLine is the line in an error of the YAML parser.
var errorLine = regexp.MustCompile(`^yaml: line (\d+): `)

// SyntaxErrorLine returns the line, from 1, of the mistake for which a document cannot be parsed:
// the first line with which the document stops being YAML, whatever follows. For a quote or
// bracket that is never closed this is the line that opens it. reported is the line that
// the parser names, or 0; it is returned where the document is YAML for this package, or
// where it is too large to search.
func SyntaxErrorLine(document []byte, reported int) int {
	if len(document) > maxSearched {
		return reported
	}
	starts := lineStarts(document)
	err := parse(document)
	if len(starts) == 0 || err == nil {
		return reported
	}
	before := func(line int) []byte { return document[:starts[line-1]] }
	last := len(starts)
	if reported > 0 && reported+2 < last && parse(before(reported+3)) != nil {
		last = reported + 2 // parsers name a line that is at most this much early
	}
	budget := searchBytes + 4*len(document)
	for line := last; line > 1 && budget > 0; line-- {
		if parse(before(line)) == nil {
			return line
		}
		if opened := lineOf(err); last-line == searchLines && opened > 1 && opened < line && parse(before(opened)) == nil && parse(before(opened+1)) != nil {
			return opened
		}
		budget -= starts[line-1]
	}
	if budget <= 0 {
		return reported
	}
	return 1
}

// lineOf is the line that an error names: for what is never closed that of its
// beginning.
func lineOf(err error) int {
	m := errorLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0
	}
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil {
		return 0
	}
	return line
}

// lineStarts are the offsets at which lines begin.
func lineStarts(document []byte) []int {
	var starts []int
	at := 0
	for line := range bytes.Lines(document) {
		starts = append(starts, at)
		at += len(line)
	}
	return starts
}

// parse is why a text is not YAML; nil for one that is. A key without a value is
// YAML.
func parse(text []byte) error {
	var doc yaml.Node
	return yaml.Unmarshal(text, &doc)
}

// TabIndents reports whether a line, from 1, is indented with a tab.
func TabIndents(document []byte, line int) bool {
	number := 0
	for text := range bytes.Lines(document) {
		if number++; number == line {
			blank := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
			return bytes.ContainsRune(blank, '\t') && strings.TrimSpace(string(text)) != ""
		}
	}
	return false
}
