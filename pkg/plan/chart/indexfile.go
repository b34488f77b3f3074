package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Limits of an index. Large public ones have some ten megabytes.
const (
	MaxIndexBytes   = 64 << 20
	maxWholeBytes   = 8 << 20 // of an index that cannot be read chart by chart
	maxIndexCharts  = 50_000
	maxVersions     = 20_000   // of one chart
	maxChartBytes   = 16 << 20 // of what an index says of one chart
	maxIndexedValue = 4096     // bytes of a name, version, URL or digest
	maxParsed       = 250_000  // values, or keys with a value, that are parsed at once; each takes some hundred bytes
)

// An Index is what a Helm repository's index.yaml says of its charts. It holds
// on to the bytes that it was made of; what it says of a chart is read when
// that chart is asked for.
type Index struct {
	text map[string][]byte     // of each chart: YAML or JSON of its versions
	tree map[string]*yaml.Node // the same, of an index that had to be read as a whole
}

// ParseIndex reads index.yaml, YAML or JSON, up to MaxIndexBytes; data must not
// change after. Errors are Terminal, InvalidIndex.
//
// An index can have tens of megabytes, and a YAML parser needs many times as
// much. So the usual layout, one chart after another, is cut into its charts
// first; any other layout is read as a whole if it is small enough.
func ParseIndex(data []byte) (Index, error) {
	if len(data) > MaxIndexBytes {
		return Index{}, badIndex("it is larger than " + itoa(MaxIndexBytes>>20) + " MiB")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	first := bytes.TrimLeft(data, " \t\r\n")
	if len(first) == 0 {
		return Index{}, badIndex("it is empty")
	}
	if first[0] == '<' {
		return Index{}, badIndex("it is a web page; is helm.repo the URL of the directory that index.yaml is in, and need credentials be set?")
	}
	if first[0] == '{' && json.Valid(data) {
		return parseJSONIndex(data)
	}
	if text, ok := cutIndex(data); ok {
		return checked(Index{text: text})
	}
	if len(data) > maxWholeBytes {
		return Index{}, badIndex("it is larger than " + itoa(maxWholeBytes>>20) + " MiB and not laid out one chart after another")
	}
	return parseWholeIndex(data)
}

func badIndex(why string) error {
	return permanentf(ReasonInvalidIndex, "the repository's index.yaml cannot be used: %s", why)
}

func itoa(n int) string { return strconv.Itoa(n) }

func checked(x Index) (Index, error) {
	if len(x.text) > maxIndexCharts || len(x.tree) > maxIndexCharts {
		return Index{}, tooManyCharts()
	}
	return x, nil
}

func tooManyCharts() error { return badIndex("it has more than " + itoa(maxIndexCharts) + " charts") }

// keysBelowTop counts the keys of the objects that stand in a JSON object, such
// as the charts in entries.
func keysBelowTop(valid []byte) (n int) {
	depth, text := 0, false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		case c == ':' && depth == 2:
			n++
		}
	}
	return n
}

func parseJSONIndex(data []byte) (Index, error) {
	if keysBelowTop(data) > maxIndexCharts {
		return Index{}, tooManyCharts()
	}
	var file struct {
		Entries map[string]json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return Index{}, badIndex("entries is no map")
	}
	if file.Entries == nil {
		return Index{}, badIndex("it has no entries")
	}
	x := Index{text: make(map[string][]byte, len(file.Entries))}
	for name, raw := range file.Entries {
		x.text[name] = raw
	}
	return checked(x)
}

// chartKey is a line that begins what an index says of one chart.
var chartKey = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._/-]*)|"([A-Za-z0-9._/-]+)"|'([A-Za-z0-9._/-]+)') *:(?: |$)`)

// special are words that YAML reads as something else than a text.
var special = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// plainText reports whether YAML reads an unquoted word as a text.
func plainText(word string) bool {
	_, notInt := strconv.ParseInt(word, 0, 64)
	_, notFloat := strconv.ParseFloat(word, 64)
	return notInt != nil && notFloat != nil && strings.Trim(word, "0123456789.-_") != "" &&
		!slices.Contains(special, strings.ToLower(word))
}

// cutIndex cuts a YAML index into its charts, without reading them. ok is false
// if it is not laid out as every known tool writes it: a key "entries" at the
// beginning of a line, and below it the charts, all indented alike.
func cutIndex(data []byte) (charts map[string][]byte, ok bool) {
	if bytes.IndexByte(data, '\t') >= 0 && bytes.Contains(data, []byte("\n\t")) {
		return nil, false
	}
	c := indexCutter{charts: map[string][]byte{}, indent: -1}
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if !c.line(data, at, end) {
			return nil, false
		}
		if len(c.charts) > maxIndexCharts {
			return c.charts, true // the caller compares their number with the limit
		}
		at = end
	}
	c.keepEntry(data, len(data))
	return c.charts, c.seen
}

// A indexCutter goes over the lines of an index.
type indexCutter struct {
	charts map[string][]byte
	seen   bool // there was a key "entries"
	inside bool // of it
	indent int  // of the charts' names; -1 until it is known
	name   string
	from   int // where the versions of name begin
}

// line takes the next line. It returns false if it does not recognize the line.
func (c *indexCutter) line(data []byte, at, end int) bool {
	text := data[at:end]
	body := bytes.TrimLeft(text, " ")
	trimmed := bytes.TrimRight(body, " \r\n")
	if len(trimmed) == 0 || trimmed[0] == '#' {
		return true
	}
	indent := len(text) - len(body)
	switch {
	case indent == 0:
		c.keepEntry(data, at)
		return c.isTopLevel(trimmed)
	case !c.inside:
		return true
	case c.indent < 0:
		c.indent = indent
	}
	switch {
	case indent < c.indent:
		return false
	case indent > c.indent || trimmed[0] == '-':
		return c.name != ""
	}
	c.keepEntry(data, at)
	m := chartKey.FindSubmatch(trimmed)
	if m == nil || len(m[1]) > 0 && !plainText(string(m[1])) {
		return false
	}
	c.name, c.from = string(m[1])+string(m[2])+string(m[3]), at
	return true
}

// harmless is a line at the left margin whose value ends with it: no text that
// goes on in lines that look like keys.
var harmless = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9_-]*:|-)(?: +(?:"[^"\\]*"|'[^']*'|[^"'\s|>\[{&*!][^#]*|\{\}|\[\]))?$`)

// isTopLevel is a line at the left margin.
func (c *indexCutter) isTopLevel(text []byte) bool {
	if c.inside && text[0] == '-' {
		return false // entries is a list
	}
	c.inside = false
	switch {
	case bytes.Equal(text, []byte("entries:")) || bytes.HasPrefix(text, []byte("entries: #")):
		c.inside = !c.seen
		c.seen = true
		return c.inside
	case bytes.HasPrefix(text, []byte("entries")):
		return false
	case bytes.Equal(text, []byte("---")):
		return !c.seen
	}
	return harmless.Match(text)
}

func (c *indexCutter) keepEntry(data []byte, at int) {
	if c.name != "" {
		c.charts[c.name] = data[c.from:at]
	}
	c.name = ""
}

func parseWholeIndex(data []byte) (Index, error) {
	root, err := decodeNode(data)
	if err != nil {
		return Index{}, badIndex("it " + err.Error())
	}
	entries := child(root, "entries")
	if entries == nil || entries.Kind != yaml.MappingNode {
		return Index{}, badIndex("it has no entries")
	}
	x := Index{tree: make(map[string]*yaml.Node, len(entries.Content)/2)}
	for i := 0; i+1 < len(entries.Content); i += 2 {
		x.tree[entries.Content[i].Value] = entries.Content[i+1]
	}
	return checked(x)
}

// lines is how many lines a YAML text would have with each value, or pair of key
// and value, on its own.
func lines(data []byte) (n int) {
	for _, between := range []string{"\n", ",", "[", "{", "- -", "? ?"} {
		n += bytes.Count(data, []byte(between))
	}
	return n
}

// decodeNode returns the first document of data. The text of an error continues a sentence
// whose subject is the file ("is no YAML"). If the parser panics, decodeNode returns an
// error.
func decodeNode(data []byte) (node *yaml.Node, err error) {
	if lines(data) > maxParsed {
		return nil, errors.New("has more than " + itoa(maxParsed) + " values")
	}
	defer func() {
		if recover() != nil {
			node, err = nil, errors.New("cannot be read")
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, errors.New("is no YAML: " + strings.TrimPrefix(firstLine(err.Error()), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return resolveAlias(doc.Content[0]), nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return condition.Cut(strings.ToValidUTF8(s, "?"), 200)
}

// resolveAlias resolves an alias to its node. Nothing is copied, so aliases of aliases
// cost nothing.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// child is the value of a key, the last of its name as in rancher/fleet.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value == key {
			return resolveAlias(n.Content[i+1])
		}
	}
	return nil
}

// versionsOf reads what the index says of one chart; ok is false if nothing.
func (id Index) versionsOf(name string) (entries []Entry, ok bool, err error) {
	node, err := id.node(name)
	if err != nil {
		return nil, false, err
	}
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil, false, nil
	}
	if len(node.Content) > maxVersions {
		return nil, false, badIndex("chart " + quotedLine(name) + " has more than " + itoa(maxVersions) + " versions")
	}
	for _, n := range node.Content {
		if n = resolveAlias(n); n.Kind != yaml.MappingNode {
			continue
		}
		e := entryOf(n)
		if max(len(e.Name), len(e.Version), len(e.URL), len(e.Digest)) > maxIndexedValue {
			return nil, false, badIndex("chart " + quotedLine(name) + " has a name, version, URL or digest of more than " + itoa(maxIndexedValue) + " bytes")
		}
		entries = append(entries, e)
	}
	return entries, true, nil
}

// node is the list of the versions of a chart, or nil.
func (id Index) node(name string) (*yaml.Node, error) {
	text, found := id.text[name]
	if !found {
		return resolveAlias(id.tree[name]), nil
	}
	if len(text) > maxChartBytes {
		return nil, badIndex("what it says of chart " + quotedLine(name) + " is larger than " + itoa(maxChartBytes>>20) + " MiB")
	}
	node, err := decodeNode(text)
	if err != nil {
		return nil, badIndex("what it says of chart " + quotedLine(name) + " " + err.Error())
	}
	if node != nil && node.Kind == yaml.MappingNode && len(node.Content) == 2 {
		node = resolveAlias(node.Content[1]) // "name: [...]"
	}
	return node, nil
}

func entryOf(n *yaml.Node) Entry {
	e := Entry{Name: scalar(child(n, "name")), Version: scalar(child(n, "version")), Digest: scalar(child(n, "digest"))}
	if urls := child(n, "urls"); urls != nil && urls.Kind == yaml.SequenceNode && len(urls.Content) > 0 {
		e.URL = scalar(resolveAlias(urls.Content[0]))
	}
	return e
}

// scalar returns a value as rancher/fleet's reader does, which converts it to JSON first:
// a number loses its trailing zeros (1.10 becomes 1.1).
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	switch n.ShortTag() {
	case "!!float":
		var f float64
		if n.Decode(&f) == nil {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return strconv.FormatInt(i, 10)
		}
	case "!!null":
		return ""
	}
	return n.Value
}

// chartNames lists some charts of the index.
func (id Index) chartNames() string {
	var list []string
	for name := range id.text {
		list = append(list, name)
	}
	for name := range id.tree {
		list = append(list, name)
	}
	slices.Sort(list)
	return "it has " + firstNames(list)
}
