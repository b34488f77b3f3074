package fleetyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// What the parser says of a line that it cannot read on with.
const (
	noMapping = "mapping values are not allowed in this context"
	noKey     = "did not find expected key"
	noColon   = "could not find expected ':'"
	noItem    = "did not find expected '-' indicator"
	noComma   = "did not find expected ',' or "
	noAnchor  = "unknown anchor "
)

var (
	// secondColon is a line whose text holds what separates keys from values.
	secondColon = regexp.MustCompile(`^\s*(- +)*[^\s"'#{\[|>][^:#]*:\s+[^\s"'#{\[|>&*!][^#]*:(\s|$)`)
	// behindQuote is a line with more behind a text in quotes.
	behindQuote = regexp.MustCompile(`^\s*(- +)*([^\s"'#]+:\s+)?("[^"]*"|'[^']*')\s*[^\s:,#\]}"']`)
)

// usualCause is what usually is the reason that the parser says text of a line, from
// 1, of a document; empty where there is no usual one. It repeats nothing of the file.
// before are the lines of the file before the document.
func usualCause(document []byte, line, before int, text string) string {
	here, above, number := around(document, line)
	switch {
	case strings.HasPrefix(text, noComma):
		return "usually a bracket is opened here and not closed, or a text in brackets needs quotes"
	case strings.HasPrefix(text, noAnchor):
		return "a text that begins with * needs quotes"
	case text == noToken:
		return "a text that begins with @, ` or % needs quotes"
	case text == noColon:
		return fmt.Sprintf("usually a key has no colon behind it: here or in line %d", before+max(number, 1))
	case text != noMapping && text != noKey && text != noItem:
		return ""
	case text == noMapping && secondColon.Match(here):
		return `a text with ": " in it needs quotes, and each key a line of its own`
	case text != noMapping && behindQuote.Match(here):
		return "a text of which a part is in quotes needs quotes as a whole"
	case indent(here) == indent(above) || number == 0:
		return "usually the line, or one above it, is indented wrongly"
	}
	return fmt.Sprintf("usually the line is indented wrongly: it begins with %s, line %d with %s", spaces(indent(here)), before+number, spaces(indent(above)))
}

// around is a line, from 1, and the line above it that holds something, with its
// number; 0 where there is none.
func around(document []byte, line int) (here, above []byte, number int) {
	at := 0
	for text := range bytes.Lines(document) {
		at++
		blank := bytes.TrimSpace(text)
		switch {
		case at == line:
			return text, above, number
		case len(blank) > 0 && blank[0] != '#':
			above, number = text, at
		}
	}
	return nil, above, number
}

func indent(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}
