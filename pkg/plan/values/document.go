package values

import (
	"fmt"
	"regexp"
	"strings"

	yamlnode "gopkg.in/yaml.v3"
	"sigs.k8s.io/yaml"
)

const (
	// documentEntryBytes is the memory for a value while YAML is read.
	documentEntryBytes = 300
	// maxUnfoldedBytes is how large a document may get when its aliases are
	// replaced by what they stand for.
	maxUnfoldedBytes = maxRenderedBytes
)

var (
	anchorIn = regexp.MustCompile(`(?m)(^|[\s,\[{])&[^\s&]`)
	aliasIn  = regexp.MustCompile(`(?m)(^|[\s,\[{])\*[^\s*]`)
)

// parseYAML reads what templates have left as YAML. entries is how many values the
// text had before: those that templates have added are measured.
func (m *meter) parseYAML(name, text string, entries int) (any, error) {
	if err := m.addBytes("the YAML that it leaves", times(entriesIn(text)-entries, documentEntryBytes)); err != nil {
		return nil, err
	}
	if anchorIn.MatchString(text) && aliasIn.MatchString(text) {
		var node yamlnode.Node
		u := aliasExpansion{}
		if yamlnode.Unmarshal([]byte(text), &node) == nil && u.size(&node) > maxUnfoldedBytes {
			return nil, fmt.Errorf("the aliases of the YAML that the templates leave stand for more than 4 MiB: %w", ErrLimit)
		}
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("%s: what the templates leave is not YAML%s", name, line(err))
	}
	return value, nil
}

// An aliasExpansion is the sizes of anchors, as documents with their aliases replaced.
type aliasExpansion map[*yamlnode.Node]int

// size returns the bytes of a value, at most a little more than maxUnfoldedBytes.
func (a aliasExpansion) size(n *yamlnode.Node) int {
	if n.Kind == yamlnode.AliasNode {
		if known, ok := a[n.Alias]; ok {
			return known
		}
		return maxUnfoldedBytes + 1 // inside of its own anchor
	}
	total := len(n.Value) + valueBytes
	for _, below := range n.Content {
		if total += a.size(below); total > maxUnfoldedBytes {
			total = maxUnfoldedBytes + 1
			break
		}
	}
	if n.Anchor != "" {
		a[n] = total
	}
	return total
}

var lineOf = regexp.MustCompile(`line \d+`)

// line says where in the text err was found, if it says so itself. The rest of
// such an error may quote the text, which may be a secret.
func line(err error) string {
	if found := lineOf.FindString(err.Error()); found != "" {
		return ", " + found
	}
	return ""
}

// positionText is a position in a text for people: of values as a whole the key at the
// top, since their lines stand in no file of the user, else the line.
func positionText(name, text string, at int) string {
	if at >= len(text) {
		return name
	}
	if name != treeName {
		return fmt.Sprintf("%s, line %d", name, strings.Count(text[:at], "\n")+1)
	}
	for before := text[:at+1]; ; {
		start := strings.LastIndexByte(before, '\n') + 1
		key, _, isKey := strings.Cut(text[start:], ":")
		if isKey && key != "" && !strings.ContainsAny(key, " \n\"'${-?#") {
			return name + "." + key
		}
		if start == 0 {
			return name
		}
		before = text[:start-1]
	}
}
