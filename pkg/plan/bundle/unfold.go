package bundle

import (
	"bytes"
	"fmt"
	"regexp"

	"gopkg.in/yaml.v3"
)

const (
	// unfoldLimit is how large one YAML document may get when its aliases are
	// replaced by what they stand for; the API server takes no object of 3 MiB.
	unfoldLimit = 16 << 20
	// lineLimit is how long one line of YAML may be.
	lineLimit = 4 << 20
	// tokenLimit bounds how many values a document may have that is parsed here.
	// A parser needs a few hundred bytes for each.
	tokenLimit = 250_000
)

var (
	anchor = regexp.MustCompile(`(?m)(^|[\s,\[{])&[^\s&]`)
	alias  = regexp.MustCompile(`(?m)(^|[\s,\[{])\*[^\s*]`)
)

// aliasBombReason says why a YAML document must not be parsed, and in which line that is.
// It reads the document and allocates no more than a few MiB.
func aliasBombReason(doc []byte) (why string, line int) {
	number, tokens := 0, 0
	for text := range bytes.Lines(doc) {
		number++
		if len(text) > lineLimit {
			return fmt.Sprintf("the line is longer than %d KiB", lineLimit>>10), number
		}
		tokens += 1 + onLine(text)
	}
	some := bytes.IndexByte(doc, '&') >= 0 && bytes.IndexByte(doc, '*') >= 0 // many times as fast as the expressions
	if !some || !anchor.Match(doc) || !alias.Match(doc) {
		return "", 0
	}
	if tokens > tokenLimit {
		return fmt.Sprintf("with more than %d values and aliases among them it is not read", tokenLimit), 0
	}
	var node yaml.Node
	if yaml.Unmarshal(doc, &node) != nil {
		return "", 0 // the decoder reports the error
	}
	u := aliasExpansion{sizes: map[*yaml.Node]int{}}
	if u.size(&node) > unfoldLimit {
		return fmt.Sprintf("its aliases unfold to more than %d MiB", unfoldLimit>>20), u.line
	}
	return "", 0
}

// isTooLargeToParse reports whether a document has so many values, or such long ones, that
// parsing it takes too much memory.
func isTooLargeToParse(doc []byte) bool {
	return len(doc) > unfoldLimit || bytes.Count(doc, []byte("\n"))+onLine(doc) > tokenLimit
}

// onLine is how many values begin in the middle of lines, or nearly so.
func onLine(text []byte) (n int) {
	for _, between := range []string{",", "[", "{", "- -", "? ?"} {
		n += bytes.Count(text, []byte(between))
	}
	return n
}

// An aliasExpansion measures a document with its aliases replaced.
type aliasExpansion struct {
	sizes map[*yaml.Node]int // of anchors
	line  int                // of the first alias with which it gets too large
}

// size is the bytes of a value, at most a little more than unfoldLimit.
func (a *aliasExpansion) size(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		known, ok := a.sizes[n.Alias]
		if !ok { // an alias inside of its own anchor
			return unfoldLimit + 1
		}
		return known
	}
	total := len(n.Value) + 1
	for _, e := range n.Content {
		if total += a.size(e); total > unfoldLimit {
			total = unfoldLimit + 1
			if a.line == 0 {
				a.line = e.Line
			}
			break
		}
	}
	if n.Anchor != "" {
		a.sizes[n] = total
	}
	return total
}
