package fleetyaml

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// internal are the keys that only Fleet itself sets.
var internal = []string{"resources", "targetRestrictions", "contentsId", "helmOpOptions", "valuesHash", "overwrites"}

// maxFindings is how many findings one file has; a file of 1 MiB could have a
// hundred thousand.
const maxFindings = 200

// A checker compares a YAML tree with the Go type that it will be decoded to,
// since the decoder knows no places.
type checker struct {
	path    string
	found   []finding.Finding
	hasMore bool // something was left out

	// unknown is the severity of a key that nothing reads, outside of label selectors,
	// and belongs where such a key is known: a hint, or empty.
	unknown finding.Severity
	belongs func(key string, s decodeTarget) string
	exact   bool // the decoder minds the case of keys
}

// hasRoomFor reports whether another finding would be kept: the first error always is.
func (c *checker) hasRoomFor(s finding.Severity) bool {
	if len(c.found) < maxFindings || s == finding.Error && !finding.HasErrors(c.found) {
		return true
	}
	c.hasMore = true
	return false
}

// A decodeTarget is a place in the file: the type that is decoded there, its keys for
// people, and whether the decoder makes texts of numbers there. It does so only
// where no embedded struct lies on the way.
type decodeTarget struct {
	t     reflect.Type
	where string
	loose bool
}

func (d decodeTarget) key(t reflect.Type, key string) decodeTarget {
	return decodeTarget{t, joinKeys(d.where, key), d.loose}
}

func (c *checker) addFinding(n *yaml.Node, s finding.Severity, rule, message, hint string) {
	if !c.hasRoomFor(s) {
		return
	}
	c.found = append(c.found, finding.Finding{
		Path: c.path, Line: n.Line, Column: n.Column, Severity: s, Rule: rule, Message: message, Hint: hint,
	})
}

// isFull reports that nothing more can be found that would be kept.
func (c *checker) isFull() bool { return c.hasMore && finding.HasErrors(c.found) }

// sortedFindings are all findings by place, and last whether some were left out.
func (c *checker) sortedFindings() []finding.Finding {
	finding.Sort(c.found)
	if c.hasMore {
		c.found = append(c.found, finding.Finding{
			Path: c.path, Severity: finding.Warning, Rule: finding.RuleTooLarge,
			Message: "there are more findings about this file, which are left out",
		})
	}
	return c.found
}

func (c *checker) document(root *yaml.Node) {
	c.checkValue(root, decodeTarget{reflect.TypeFor[document](), "", true})
	for _, key := range internal {
		if n := lookup(root, key); n != nil {
			c.addFinding(n, finding.Warning, finding.RuleUnknownKey, fmt.Sprintf("key %q is set by Fleet itself; what stands here is ignored", key), "")
		}
	}
	for _, key := range []string{"name", "labels", "annotations"} {
		c.checkMetadata(lookup(root, key), key)
	}
	for _, key := range []string{"labels", "annotations"} {
		c.reserved(lookup(root, key), key)
	}
}

// checkValue compares one value with what is decoded in its place.
func (c *checker) checkValue(n *yaml.Node, s decodeTarget) {
	n = deref(n)
	for s.t.Kind() == reflect.Pointer {
		s.t = s.t.Elem()
	}
	switch {
	case isNull(n), c.isFull():
	case c.exact && s.t == reflect.TypeFor[metav1.FieldsV1](): // any mapping, which servers write
	case s.t == reflect.TypeFor[fleet.GenericMap]():
		if c.wantKind(n, yaml.MappingNode, s) {
			c.checkFreeForm(n, s.where)
		}
	case reflect.PointerTo(s.t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		if n.Kind != yaml.ScalarNode {
			c.refuseValue(n, s)
			return
		}
		c.tryDecode(n, s)
	case s.t.Kind() == reflect.Struct:
		if c.wantKind(n, yaml.MappingNode, s) {
			c.mapping(n, s)
		}
	case s.t.Kind() == reflect.Map:
		if c.wantKind(n, yaml.MappingNode, s) {
			c.entries(n, s)
		}
	case s.t.Kind() == reflect.Slice && s.t.Elem().Kind() != reflect.Uint8:
		if c.wantKind(n, yaml.SequenceNode, s) {
			c.checkItems(n, s)
		}
	default:
		if c.wantKind(n, yaml.ScalarNode, s) {
			c.tryDecode(n, s)
		}
	}
}

func (c *checker) entries(n *yaml.Node, s decodeTarget) {
	c.keys(n, s.where)
	c.labelKeys(n, s)
	for _, p := range pairs(n) {
		c.checkValue(p.value, s.key(s.t.Elem(), p.key.Value))
	}
}

func (c *checker) checkItems(n *yaml.Node, s decodeTarget) {
	for i, e := range n.Content {
		c.checkValue(e, decodeTarget{s.t.Elem(), fmt.Sprintf("%s[%d]", s.where, i), s.loose})
	}
}

func (c *checker) wantKind(n *yaml.Node, kind yaml.Kind, s decodeTarget) bool {
	if n.Kind == kind {
		return true
	}
	what := s.where
	if what == "" {
		what = "the file"
	}
	c.addFinding(n, finding.Error, finding.RuleType, fmt.Sprintf("%s must be %s, not %s", what, kinds[kind], kinds[n.Kind]), longForm(n, s.t))
	return false
}

// longForm is how to write what a single value in the place of a mapping surely
// means; empty where that is not sure.
func longForm(n *yaml.Node, t reflect.Type) string {
	list := t.Kind() == reflect.Slice
	if list {
		t = t.Elem()
	}
	text := oneLine(shortenText(n.Value))
	switch {
	case n.Kind != yaml.ScalarNode || text == "":
		return ""
	case t == reflect.TypeFor[fleet.BundleRef]() && list:
		return "write [{name: " + text + "}]"
	case t == reflect.TypeFor[fleet.BundleRef]():
		return "write {name: " + text + "}"
	case t == reflect.TypeFor[fleet.CorrectDrift]() && n.Tag == "!!bool":
		return "write {enabled: " + text + "}"
	}
	return ""
}

// mapping compares the keys of a mapping with the fields of a struct.
func (c *checker) mapping(n *yaml.Node, s decodeTarget) {
	c.keys(n, s.where)
	known := fields(s.t)
	for _, p := range pairs(n) {
		key := p.key
		f, ok := known[key.Value]
		if !ok && !c.exact {
			for name, other := range known { // the decoder accepts another case
				if strings.EqualFold(name, key.Value) {
					f, ok = other, true
				}
			}
		}
		if ok {
			inner := s.key(f.t, key.Value)
			inner.loose = s.loose && !f.promoted
			c.checkValue(p.value, inner)
			continue
		}
		c.unknownKey(n, p, s, known)
		c.checkFreeForm(p.value, joinKeys(s.where, key.Value))
	}
}

// checkFreeForm checks what may be anything, as far as it has to have JSON at all.
func (c *checker) checkFreeForm(n *yaml.Node, where string) {
	n = deref(n)
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!float" && strings.ContainsAny(n.Value, "iInN") {
			c.addFinding(n, finding.Error, finding.RuleType, where+" must not be infinite or no number at all", "")
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			c.checkFreeForm(e, fmt.Sprintf("%s[%d]", where, i))
		}
	case yaml.MappingNode:
		c.keys(n, where)
		for _, p := range pairs(n) {
			c.checkFreeForm(p.value, joinKeys(where, p.key.Value))
		}
	}
}

// keys checks the keys of a mapping: each must be a single value.
func (c *checker) keys(n *yaml.Node, where string) {
	c.duplicates(n, where)
	for _, p := range pairs(n) {
		if key := deref(p.key); key.Kind != yaml.ScalarNode || isNull(key) {
			hint := ""
			if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
				hint = HintTemplates // as in {{ .Values.region }}
			}
			c.addFinding(p.key, finding.Error, finding.RuleType, keyText, hint)
		}
	}
}

func (c *checker) duplicates(n *yaml.Node, where string) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, ok := seen[key.Value]; ok && !isMerge(key) {
			c.addFinding(key, finding.Warning, finding.RuleDuplicateKey,
				fmt.Sprintf("key %q stands here again (first in line %d); the last one counts", joinKeys(where, key.Value), first), "")
		}
		seen[key.Value] = key.Line
	}
}

// tryDecode decodes a single value on its own, so that a failure has a place.
func (c *checker) tryDecode(n *yaml.Node, s decodeTarget) {
	if s.t.Kind() == reflect.String && plainWord(n) {
		return
	}
	text := []byte(n.Value)
	if n.Style != 0 {
		raw, err := yaml.Marshal(n)
		if err != nil {
			c.refuseValue(n, s)
			return
		}
		text = raw
	}
	got, err := decoded(text, s)
	if err != nil || changesText(n, got, s) {
		c.refuseValue(n, s)
	}
}

// changesText reports whether got, which the decoder makes of a value, is another text than
// what is written: "false" for no, "1.1" for 1.10. In the name of an entry of imageScans
// that may be, which nothing reads.
func changesText(n *yaml.Node, got reflect.Value, s decodeTarget) bool {
	return got.Kind() == reflect.String && n.Style == 0 && got.String() != n.Value &&
		!strings.Contains(n.Value, "\n") && !isInLists(s.where, "imageScans")
}

// labelKeys refuses keys of matchLabels of which the decoder makes another text.
func (c *checker) labelKeys(n *yaml.Node, s decodeTarget) {
	if at := strings.LastIndex(s.where, "."); !strings.EqualFold(s.where[at+1:], "matchLabels") {
		return
	}
	for _, p := range pairs(n) {
		if c.isFull() {
			return
		}
		key := deref(p.key)
		if key.Kind != yaml.ScalarNode || isNull(key) || plainWord(key) {
			continue
		}
		text := decodeTarget{reflect.TypeFor[string](), s.where, true}
		if got, err := decoded([]byte(key.Value), text); err == nil && changesText(key, got, text) {
			c.addFinding(p.key, finding.Error, finding.RuleType, fmt.Sprintf("%s: the key %s counts as %q", s.where, shortenText(key.Value), got), "put it in quotes")
		}
	}
}

// refuseValue says what should stand in the place of a value.
func (c *checker) refuseValue(n *yaml.Node, s decodeTarget) {
	hint := ""
	if s.t.Kind() == reflect.String && n.Kind == yaml.ScalarNode {
		hint = "put it in quotes"
	}
	got := kinds[n.Kind]
	if n.Kind == yaml.ScalarNode && !confidential(s.where) {
		got = shortenText(n.Value)
		if quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted && hint == "" {
			got = fmt.Sprintf("the text %q", got)
			if decode([]byte(n.Value), s) == nil {
				hint = "take off the quotes"
			}
		}
	}
	c.addFinding(n, finding.Error, finding.RuleType, fmt.Sprintf("%s must be %s, not %s", s.where, describe(s.t), got), hint)
}

// kinds are the kinds of YAML values in words.
var kinds = map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}

// confidential reports whether what stands at a place may be secret: Helm values and
// what is in a Secret are never repeated.
func confidential(where string) bool {
	where = strings.ToLower(where)
	return strings.Contains(where, "helm.values") || strings.Contains(where, "helm.templatevalues") ||
		strings.HasPrefix(where, "data.") || strings.HasPrefix(where, "stringdata.")
}

func decode(text []byte, s decodeTarget) error {
	_, err := decoded(text, s)
	return err
}

// decoded decodes a value into the type of its place.
func decoded(text []byte, s decodeTarget) (reflect.Value, error) {
	target := reflect.New(s.t)
	if s.loose {
		return target.Elem(), sigyaml.Unmarshal(text, target.Interface())
	}
	raw, err := sigyaml.YAMLToJSON(text)
	if err != nil {
		return target.Elem(), err
	}
	return target.Elem(), json.Unmarshal(raw, target.Interface())
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.String:
		return "a text"
	}
	switch t.Name() {
	case "Duration":
		return "a duration such as 90s or 15m"
	case "IntOrString":
		return "a number or a percentage"
	case "GenericMap":
		return "a mapping"
	}
	return "of another type"
}

// A field of a struct; promoted if it is one of an embedded struct.
type field struct {
	t        reflect.Type
	promoted bool
}

// fields are the fields of a struct by their JSON names.
func fields(t reflect.Type) map[string]field {
	out := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", !f.IsExported():
		case f.Anonymous && name == "":
			for inner, it := range fields(f.Type) {
				if own, shadowed := out[inner]; !shadowed || own.promoted {
					out[inner] = field{it.t, true}
				}
			}
		default:
			out[name] = field{f.Type, false}
		}
	}
	return out
}

// Known reports whether a key may stand at the top of a fleet.yaml.
func Known(key string) bool {
	_, ok := fields(reflect.TypeFor[document]())[key]
	return ok && !slices.Contains(internal, key)
}

func fieldNames(known map[string]field) []string {
	list := make([]string, 0, len(known))
	for name := range known {
		if !slices.Contains(internal, name) {
			list = append(list, name)
		}
	}
	return list
}

func joinKeys(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

func shortenText(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}
