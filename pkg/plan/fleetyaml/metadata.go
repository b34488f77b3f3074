package fleetyaml

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// checkMetadata refuses values that are no YAML strings. The file is decoded twice: the
// first decoder accepts a number or boolean as a string, the second (sigs.k8s.io/yaml, into
// metadata) does not.
func (c *checker) checkMetadata(n *yaml.Node, key string) {
	if n == nil {
		return
	}
	n = deref(n)
	if n.Kind == yaml.ScalarNode && key == "name" {
		c.checkMetadataValue(key, n, map[string]any{key: n})
		return
	}
	for _, p := range pairs(n) {
		if c.isFull() {
			return
		}
		c.checkMetadataValue(joinKeys(key, p.key.Value), deref(p.value), map[string]any{key: map[string]any{p.key.Value: deref(p.value)}})
	}
}

func (c *checker) checkMetadataValue(where string, value *yaml.Node, entry map[string]any) {
	if value.Kind != yaml.ScalarNode || isNull(value) || plainWord(value) {
		return
	}
	for _, f := range c.found {
		if f.Line == value.Line && f.Column == value.Column {
			return // this position has a finding already
		}
	}
	raw, err := yaml.Marshal(entry)
	if err == nil && sigyaml.Unmarshal(raw, new(metadata)) != nil {
		c.addFinding(value, finding.Error, finding.RuleType, fmt.Sprintf("%s must be a text, not %s", where, shortenText(value.Value)), "put it in quotes")
	}
}

// plainWord reports whether a scalar can be nothing but a text, in any version of
// YAML.
func plainWord(n *yaml.Node) bool {
	if n.Tag != "!!str" || n.Value == "" {
		return false
	}
	if n.Style != 0 {
		return n.Style&yaml.TaggedStyle == 0
	}
	first := n.Value[0] | 0x20
	return first >= 'a' && first <= 'z' && !slices.Contains(wordsOfOldYAML, strings.ToLower(n.Value))
}

// wordsOfOldYAML are booleans in YAML 1.1.
var wordsOfOldYAML = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// reserved refuses labels and annotations by which Fleet finds its own objects:
// with them a repository could take over or detach what belongs to another.
func (c *checker) reserved(n *yaml.Node, what string) {
	if n == nil {
		return
	}
	for _, p := range pairs(n) {
		if Reserved(p.key.Value) {
			c.addFinding(p.key, finding.Error, finding.RuleReserved, reservedText(what, p.key.Value), "")
		}
	}
}

func reservedText(what, key string) string {
	return fmt.Sprintf("%s key %q is reserved for Fleet", strings.TrimSuffix(what, "s"), key)
}

// Reserved reports whether a key of labels or annotations is one that only Fleet
// may set.
func Reserved(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, own := range []string{"fleet.cattle.io", "objectset.rio.cattle.io"} {
		if prefix == own || strings.HasSuffix(prefix, "."+own) {
			return true
		}
	}
	return false
}
