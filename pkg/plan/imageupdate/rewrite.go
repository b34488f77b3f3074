package imageupdate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// maxFileBytes is how large a file with markers may be, and maxFileTokens how many
	// lines and values it may have: a parser needs a few hundred bytes for each.
	maxFileBytes  = 1 << 20
	maxFileTokens = 100_000
)

// marker is what the comment at a value holds, as files write it.
const markerKey = `"$imagescan"`

// A Change is one value that was replaced.
type Change struct {
	Path     string
	Line     int
	Old, New string
}

// errUnread is the cause of all errors about a file that is no YAML. The parser's own text
// may quote the file, which may hold secrets.
var errUnread = errors.New("it is not YAML")

// hasMarker reports whether a file may hold a marker.
func hasMarker(text []byte) bool { return bytes.Contains(text, []byte(markerKey)) }

// RewriteFile replaces the values of a YAML file that a comment marks by what values say.
// It changes the bytes of these values and no others: quotes, comments, white space and
// line breaks stay. A value that is plain and would be no text becomes quoted, such as the
// tag 1.10.
//
// An error says why the file stays as it is: it does not parse, or a marker is where no
// value can be replaced with certainty. A marker that values do not know changes nothing.
func RewriteFile(text []byte, values Values) (rewritten []byte, changes []Change, err error) {
	if !hasMarker(text) {
		return text, nil, nil
	}
	before, err := parseDocs(text)
	if err != nil {
		return text, nil, err
	}
	var edits []edit
	lines := lineStarts(text)
	for _, m := range marked(before) {
		want, ok := values.lookup(m.name)
		if !ok || m.node.Value == want && m.node.ShortTag() == "!!str" {
			continue
		}
		e, err := editOf(text, lines, m.node, want)
		if err != nil {
			return text, nil, fmt.Errorf("line %d: %w", m.node.Line, err)
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return text, nil, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	wanted := map[*yaml.Node]string{}
	for _, e := range edits {
		if e.from < at {
			return text, nil, fmt.Errorf("line %d: the marked value cannot be told from another", e.node.Line)
		}
		out.Write(text[at:e.from])
		out.WriteString(e.with)
		at = e.to
		wanted[e.node] = e.value
		changes = append(changes, Change{Line: e.node.Line, Old: e.node.Value, New: e.value})
	}
	out.Write(text[at:])
	after, err := parseDocs(out.Bytes())
	if err != nil || !slices.EqualFunc(before, after, func(a, b *yaml.Node) bool { return sameBut(a, b, wanted) }) {
		return text, nil, errors.New("it would not be the same file apart from the marked values")
	}
	return out.Bytes(), changes, nil
}

// parseDocs returns the documents of a file.
func parseDocs(text []byte) (docs []*yaml.Node, err error) {
	if len(text) > maxFileBytes || bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte(","))+bytes.Count(text, []byte("["))+
		bytes.Count(text, []byte("{"))+bytes.Count(text, []byte(": "))+bytes.Count(text, []byte("- ")) > maxFileTokens {
		return nil, fmt.Errorf("it is larger than %d KiB, or has more than %d values", maxFileBytes>>10, maxFileTokens)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	defer func() {
		if recover() != nil { // the parser panics at some broken files
			docs, err = nil, errUnread
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := &yaml.Node{}
		switch err := decoder.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, errUnread
		}
		docs = append(docs, doc)
	}
}

// A markedValue is a scalar with a marker.
type markedValue struct {
	node *yaml.Node
	name string
}

// marked returns the marked values of documents: values of maps and elements of lists, not
// keys, and not what an alias leads to.
func marked(docs []*yaml.Node) []markedValue {
	var list []markedValue
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			if name, ok := markerIn(n.LineComment); ok {
				list = append(list, markedValue{n, name})
			}
		case yaml.MappingNode:
			for i := 1; i < len(n.Content); i += 2 {
				visit(n.Content[i])
			}
		case yaml.DocumentNode, yaml.SequenceNode:
			for _, below := range n.Content {
				visit(below)
			}
		}
	}
	for _, d := range docs {
		visit(d)
	}
	return list
}

// markerIn returns what a comment says as a marker: JSON with the one key $imagescan.
func markerIn(comment string) (name string, ok bool) {
	line, _, _ := strings.Cut(comment, "\n")
	line = strings.TrimSpace(strings.TrimLeft(line, "# \t"))
	if !strings.HasPrefix(line, "{") {
		return "", false
	}
	var m map[string]string
	if json.Unmarshal([]byte(line), &m) != nil {
		return "", false
	}
	name = m["$imagescan"]
	return name, name != "" && len(m) == 1
}

// An edit is the bytes of one scalar and what replaces them.
type edit struct {
	node     *yaml.Node
	from, to int
	with     string
	value    string // that with stands for
}

var (
	errSeveralLines = errors.New("the marked value takes several lines")
	errNotFound     = errors.New("the marked value cannot be told from what is around it")
)

// editOf finds the bytes of a scalar in a file and checks them: they are the value as the
// parser has it, and the comment is behind them on the same line.
func editOf(text []byte, lines []int, n *yaml.Node, want string) (edit, error) {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return edit{}, errSeveralLines
	}
	at, ok := offset(text, lines, n.Line, n.Column)
	if !ok {
		return edit{}, errNotFound
	}
	at = afterProperties(text, at)
	end := at
	quote := ""
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		quote = `"`
		end = endOfQuoted(text, at, '"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		quote = "'"
		end = endOfQuoted(text, at, '\'')
	case bytes.HasPrefix(text[at:], []byte(n.Value)) && n.Value != "":
		end = at + len(n.Value)
	case n.Value != "":
		return edit{}, errSeveralLines
	}
	if end <= at || bytes.ContainsAny(text[at:end], "\r\n") {
		return edit{}, errNotFound
	}
	var alone yaml.Node
	if yaml.Unmarshal(text[at:end], &alone) != nil || len(alone.Content) != 1 || alone.Content[0].Value != n.Value {
		return edit{}, errNotFound
	}
	rest := bytes.TrimLeft(text[end:], " \t")
	rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(",")), " \t")
	if !bytes.HasPrefix(rest, []byte("#")) {
		return edit{}, errNotFound
	}
	if quote == "" && !isText(want) {
		quote = `"`
	}
	return edit{node: n, from: at, to: end, with: quote + want + quote, value: want}, nil
}

// isText reports whether a plain scalar is a text, and not a number or a truth value.
func isText(plain string) bool {
	var n yaml.Node
	return yaml.Unmarshal([]byte(plain), &n) == nil && len(n.Content) == 1 && n.Content[0].Kind == yaml.ScalarNode &&
		n.Content[0].ShortTag() == "!!str" && n.Content[0].Value == plain
}

// lineStarts returns the offset of each line, as the parser counts them.
func lineStarts(text []byte) []int {
	starts := []int{len(bom(text))}
	for i := starts[0]; i < len(text); {
		n := lineBreak(text[i:])
		if n == 0 {
			i++
			continue
		}
		i += n
		starts = append(starts, i)
	}
	return starts
}

// bom is the byte order mark that a file begins with, or nothing.
func bom(text []byte) []byte {
	const mark = "\uFEFF"
	if bytes.HasPrefix(text, []byte(mark)) {
		return text[:len(mark)]
	}
	return nil
}

// lineBreak is how many bytes the line break takes with which a text begins; 0 if there is
// none. YAML 1.1 has five of them.
func lineBreak(text []byte) int {
	for _, b := range []string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasPrefix(text, []byte(b)) {
			return len(b)
		}
	}
	return 0
}

// offset is that of a line and column, both from 1; columns are characters.
func offset(text []byte, lines []int, line, column int) (int, bool) {
	if line < 1 || line > len(lines) {
		return 0, false
	}
	at := lines[line-1]
	for range column - 1 {
		if at >= len(text) {
			return 0, false
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at, at < len(text)
}

// afterProperties returns where a scalar begins behind its anchor and tag on the same line.
func afterProperties(text []byte, at int) int {
	for at < len(text) && (text[at] == '&' || text[at] == '!') {
		end := bytes.IndexAny(text[at:], " \t\r\n")
		if end < 0 {
			return at
		}
		at += end
		for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
			at++
		}
	}
	return at
}

// endOfQuoted is where a quoted scalar ends, or at if it does not end.
func endOfQuoted(text []byte, at int, quote byte) int {
	if at >= len(text) || text[at] != quote {
		return at
	}
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return at
}

// sameBut reports whether two documents differ in nothing but the values of some nodes of
// the first.
func sameBut(a, b *yaml.Node, wanted map[*yaml.Node]string) bool {
	if a.Kind != b.Kind || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) ||
		a.HeadComment != b.HeadComment || a.LineComment != b.LineComment || a.FootComment != b.FootComment {
		return false
	}
	if want, ok := wanted[a]; ok {
		return b.Value == want && b.ShortTag() == "!!str"
	}
	if a.Value != b.Value || a.Style != b.Style || a.Tag != b.Tag || a.Line != b.Line {
		return false
	}
	for i := range a.Content {
		if !sameBut(a.Content[i], b.Content[i], wanted) {
			return false
		}
	}
	return true
}
