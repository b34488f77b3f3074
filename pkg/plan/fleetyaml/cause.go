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
	noNode    = "did not find expected node content"
)

var (
	// secondColon is a line whose text holds what separates keys from values.
	secondColon = regexp.MustCompile(`^\s*(- +)*[^\s"'#{\[|>][^:#]*:\s+[^\s"'#{\[|>&*!][^#]*:(\s|$)`)
	// behindQuote is a line with more behind a text in quotes.
	behindQuote = regexp.MustCompile(`^\s*(- +)*([^\s"'#]+:\s+)?("[^"]*"|'[^']*')\s*[^\s:,#\]}"']`)
	// bareKey is a line that is nothing but a word, as a key is without its colon.
	bareKey = regexp.MustCompile(`^\s*[A-Za-z][\w./-]*\s*(#.*)?$`)
	// bareItem is a line that is an item of a list and nothing but a word.
	bareItem = regexp.MustCompile(`^(\s*(?:- +)+)[A-Za-z][\w./-]*\s*(#.*)?$`)
	// dashes is a line that is nothing but two dashes, or more than three.
	dashes = regexp.MustCompile(`^--(--+)?\s*(\s#.*)?\s*$`)
)

var (
	// blockHeader is a line whose value is a block text, which begins in the next line.
	blockHeader = regexp.MustCompile(`^(\s*(?:- +)*)([^\s"'#{\[][^:#]*:\s+|- +)[|>][-+0-9]*\s*(\s#.*)?$`)
	// entry is a line that is an item of a list, or begins with a key.
	entry = regexp.MustCompile(`^\s*(-\s|-$|---|\.\.\.|[^\s#][^:]*:(\s|$))`)
)

// emptyBlock is the line, from 1, of the last block text above a line whose own text is
// not indented, and the line in which that text begins; 0 where there is none.
func emptyBlock(document []byte, line int) (header, below int) {
	at, open, deep := 0, 0, 0 // the line, that of the block text which begins above it, and its indentation
	for text := range bytes.Lines(document) {
		at++
		blank := bytes.TrimSpace(text)
		begins := blockHeader.FindSubmatch(bytes.TrimRight(text, "\r\n"))
		switch {
		case at > line:
			return header, below
		case begins != nil:
			open, deep = at, len(begins[1])
		case open == 0 || len(blank) == 0 || blank[0] == '#':
		default:
			if indent(text) <= deep && !entry.Match(text) {
				header, below = open, at
			}
			open = 0
		}
	}
	return header, below
}

// dashesText is the message for a wrong separator of documents.
const dashesText = "a line that separates documents is exactly three dashes"

// usualCause returns the probable cause of the parser's error text for a line, from 1,
// of a document, and the line of the mistake; empty if none is known. It repeats
// nothing of the file. before is the number of lines of the file before the document.
func usualCause(document []byte, line, before int, text string) (cause string, at int) {
	here, above, number := lineWithParent(document, line)
	header, below := emptyBlock(document, line)
	switch {
	case dashes.Match(here):
		return dashesText, line
	case text == noMapping && dashes.Match(above):
		return dashesText, number
	case header > 0 && (text == noColon || text == noMapping || text == noKey || text == noItem):
		return fmt.Sprintf("the text of the block that begins in line %d has to be indented deeper than its key", before+header), below
	case strings.HasPrefix(text, noComma):
		return "probably a bracket is opened here and not closed, or a text in brackets needs quotes", line
	case strings.HasPrefix(text, noAnchor):
		return "a text that begins with * needs quotes", line
	case text == noToken:
		return "a text that begins with @, ` or % needs quotes", line
	case text == noNode:
		return "probably a bracket is opened and not closed, or closed and not opened", line
	case text == noColon:
		return fmt.Sprintf("probably a key has no colon behind it: here or in line %d", before+max(number, 1)), line
	case text != noMapping && text != noKey && text != noItem:
		return "", line
	case text == noMapping && secondColon.Match(here):
		return `a text with ": " in it needs quotes, and each key a line of its own`, line
	case text != noMapping && behindQuote.Match(here):
		return "a text of which a part is in quotes needs quotes as a whole", line
	case text == noMapping && bareKey.Match(above) && indent(here) > indent(above):
		return "probably the key has no colon behind it", number
	case text == noMapping && belowText(above, here):
		return fmt.Sprintf("probably the line is indented wrongly, or line %d has a key without a colon behind it", before+number), line
	case indent(here) == indent(above) || number == 0:
		return "probably the line, or one above it, is indented wrongly", line
	}
	return fmt.Sprintf("probably the line is indented wrongly: it begins with %s, line %d with %s",
		spaces(indent(here)), before+number, spaces(indent(above))), line
}

// lineWithParent is a line, from 1, and the line above it that holds something, with its
// number; 0 where there is none.
func lineWithParent(document []byte, line int) (here, above []byte, number int) {
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

// belowText reports whether the line above is an item that is nothing but a word, and a
// line is indented as far as that word or further: with a colon behind the word both
// would be YAML.
func belowText(above, here []byte) bool {
	item := bareItem.FindSubmatch(above)
	return item != nil && indent(here) >= len(item[1])
}

func indent(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}
