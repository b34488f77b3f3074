// Package fleetyaml reads fleet.yaml: the file that says how the directory it
// stands in is deployed. Findings carry line and column.
package fleetyaml

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// Names are the file names that are looked for, in this order; the first that
// exists is read.
var Names = []string{"fleet.yaml", "fleet.yml"}

// MaxBytes is the largest file that is read.
const MaxBytes = 1 << 20

// A File is a fleet.yaml in typed form.
type File struct {
	Path string
	// Name of the bundle, or empty for the one made from the path.
	Name string
	// Labels and Annotations of the bundle.
	Labels      map[string]string
	Annotations map[string]string
	// Spec is the bundle's, without what Fleet itself sets. Its targets are the
	// customizations in their order, all with a name.
	Spec fleet.BundleSpec
	// OverrideTargets stand in for the targets of the GitRepo if Overrides is
	// set, also if there are none.
	OverrideTargets []fleet.GitTarget
	Overrides       bool

	root *yaml.Node
	// customized holds, for each of Spec.Targets, where it stands.
	customized [][]any
}

// document is the file as it is decoded.
type document struct {
	Name                 string            `json:"name,omitempty"`
	Labels               map[string]string `json:"labels,omitempty"`
	Annotations          map[string]string `json:"annotations,omitempty"`
	fleet.BundleSpec     `json:",inline"`
	TargetCustomizations []fleet.BundleTarget `json:"targetCustomizations,omitempty"`
	ImageScans           []imageScan          `json:"imageScans,omitempty"`
	OverrideTargets      []fleet.GitTarget    `json:"overrideTargets,omitempty"`
}

type imageScan struct {
	Name                string `json:"name,omitempty"`
	fleet.ImageScanSpec `json:",inline"`
}

// Parse reads a fleet.yaml. path is where it stands, for findings. With a
// finding of severity Error the File must not be used, except for its Name,
// which is set if it could be read.
//
// An empty file is an empty File. Keys that nothing reads are warnings, as is
// everything after the first YAML document.
func Parse(path string, data []byte) (File, []finding.Finding) {
	f := File{Path: path}
	if len(data) > MaxBytes {
		return f, []finding.Finding{{
			Path: path, Severity: finding.Error, Rule: finding.RuleTooLarge,
			Message: fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10),
		}}
	}
	root, more, err := parseNode(data)
	if err != nil {
		line, text := SyntaxError(err)
		return f, []finding.Finding{{Path: path, Line: line, Severity: finding.Error, Rule: finding.RuleYAML, Message: "YAML: " + text}}
	}
	if root == nil {
		return f, nil
	}
	f.root = root
	f.Name = nameOf(root)
	c := &checker{path: path}
	c.document(root)
	if more {
		c.add(root, finding.Warning, finding.RuleUnknownKey, "only the first document of the file is read", "")
	}
	if finding.HasErrors(c.found) {
		return f, c.sorted()
	}
	var doc document
	if err := sigyaml.Unmarshal(data, &doc); err != nil {
		c.add(root, finding.Error, finding.RuleType, "cannot be read: "+oneLine(err.Error()), "")
		return f, c.sorted()
	}
	f.fill(doc)
	f.validate(c)
	return f, c.sorted()
}

// parseNode reads the first document; more tells that another one follows.
func parseNode(data []byte) (root *yaml.Node, more bool, err error) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, false, nil
	}
	return doc.Content[0], dec.Decode(&next) == nil, nil
}

// nameOf finds the bundle's name in a file that may otherwise be wrong.
func nameOf(root *yaml.Node) string {
	if n := lookup(root, "name"); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// fill takes over what a fleet.yaml may say. What only Fleet may say is left
// out; the checker has warned about it.
func (f *File) fill(doc document) {
	f.Name, f.Labels, f.Annotations = doc.Name, doc.Labels, doc.Annotations
	f.Spec = doc.BundleSpec
	f.OverrideTargets, f.Overrides = doc.OverrideTargets, doc.OverrideTargets != nil
	f.Spec.Resources, f.Spec.TargetRestrictions = nil, nil
	f.Spec.ContentsID, f.Spec.HelmOpOptions, f.Spec.ValuesHash = "", nil, ""
	f.Spec.Overwrites = nil
	for i := range doc.Targets {
		f.customized = append(f.customized, []any{"targets", i})
	}
	for i := range doc.TargetCustomizations {
		f.customized = append(f.customized, []any{"targetCustomizations", i})
	}
	f.Spec.Targets = slices.Concat(doc.Targets, doc.TargetCustomizations)
	for i := range f.Spec.Targets {
		t := &f.Spec.Targets[i]
		t.Overwrites = nil
		if t.Name == "" {
			t.Name = fmt.Sprintf("target%03d", i)
		}
	}
}

// At is the line and column of the value that keys lead to; where they lead
// nowhere, of the last that exists. Keys are strings, and ints for lists.
func (f *File) At(keys ...any) (line, column int) {
	n := f.root
	if n == nil {
		return 0, 0
	}
	for _, key := range keys {
		next := child(n, key)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line, n.Column
}

// AtTarget is At below the place of Spec.Targets[i].
func (f *File) AtTarget(i int, keys ...any) (line, column int) {
	if i < 0 || i >= len(f.customized) {
		return 0, 0
	}
	return f.At(append(slices.Clone(f.customized[i]), keys...)...)
}

func child(n *yaml.Node, key any) *yaml.Node {
	n = deref(n)
	switch k := key.(type) {
	case string:
		return lookup(n, k)
	case int:
		if n.Kind == yaml.SequenceNode && k < len(n.Content) {
			return n.Content[k]
		}
	}
	return nil
}

// lookup finds a value in a mapping. Like the decoder, it prefers the exact key
// and accepts another case.
func lookup(n *yaml.Node, key string) *yaml.Node {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var folded *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch {
		case n.Content[i].Value == key:
			return n.Content[i+1]
		case strings.EqualFold(n.Content[i].Value, key):
			folded = n.Content[i+1]
		}
	}
	return folded
}

func deref(n *yaml.Node) *yaml.Node {
	for hops := 0; n.Kind == yaml.AliasNode && n.Alias != nil && hops < 10; hops++ {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// syntaxLine finds the place in a message of the YAML parser, which gives it in
// no other way.
var syntaxLine = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?(.*)$`)

// SyntaxError is the line, or 0, and the text of an error of the YAML parser.
func SyntaxError(err error) (line int, text string) {
	m := syntaxLine.FindStringSubmatch(oneLine(err.Error()))
	if m == nil {
		return 0, oneLine(err.Error())
	}
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil {
		line = 0
	}
	return line, m[2]
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
