// Package fleetyaml reads fleet.yaml: the file that says how the directory it
// stands in is deployed. Findings carry line and column.
package fleetyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
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
	// ImageScans as they stand in the file, also those without an image, which
	// are skipped. The place of one is Position("imageScans", index, key).
	ImageScans []fleet.ImageScanSpec

	root    *yaml.Node
	decoded bool
	// customized holds, for each of Spec.Targets, where it stands.
	customized [][]any
}

// document is the file as it is decoded.
//
// The comments of its fields are the descriptions in schemas/fleet.yaml.json.
type document struct {
	// Name of the bundle. Default: made from the names of the repository and
	// the path.
	Name string `json:"name,omitempty"`
	// Labels of the bundle, which other bundles can ask for in
	// dependsOn.selector. Those of fleet.cattle.io are Fleet's own.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the bundle. Those of fleet.cattle.io are Fleet's own.
	Annotations map[string]string `json:"annotations,omitempty"`
	// fleet.BundleSpec is all that a Bundle can say.
	fleet.BundleSpec `json:",inline"`
	// TargetCustomizations say how the options differ for some of the clusters
	// that the GitRepo selects. The first match wins, unless
	// targetCustomizationMode says otherwise.
	TargetCustomizations []fleet.BundleTarget `json:"targetCustomizations,omitempty"`
	// ImageScans look for new tags of images, for the GitRepo to commit.
	ImageScans []imageScan `json:"imageScans,omitempty"`
	// OverrideTargets stand in for the targets of the GitRepo. An empty list
	// takes these away.
	OverrideTargets []fleet.GitTarget `json:"overrideTargets,omitempty"`
}

type imageScan struct {
	// Name is for people; nothing reads it.
	Name                string `json:"name,omitempty"`
	fleet.ImageScanSpec `json:",inline"`
}

// checkMetadata is the file as rancher/fleet decodes it a second time, for the
// annotations. No number becomes a text there.
type metadata struct {
	metav1.ObjectMeta `json:",inline"`
}

// Parse reads a fleet.yaml. path is its place, for findings. If there is a finding of
// severity Error, the caller must not use the File, except for its Name, which is set if it
// could be read.
//
// An empty file is an empty File. Parse warns of unknown keys and of everything after the
// first YAML document. The file is decoded as rancher/fleet does it: as YAML 1.1, where yes
// and on are true; keys in any case; of a key that stands twice the last one is used.
//
// Findings never repeat what stands below helm.values and helm.templateValues.
func Parse(path string, data []byte) (File, []finding.Finding) {
	f := File{Path: path}
	if len(data) > MaxBytes {
		return f, []finding.Finding{{
			Path: path, Severity: finding.Error, Rule: finding.RuleTooLarge,
			Message: fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10),
		}}
	}
	c := &checker{path: path, unknown: finding.Warning, belongs: properPlace}
	root, found := c.firstDocument(data)
	if root == nil {
		return f, found
	}
	f.root = root
	f.Name = nameOf(root)
	c.document(root)
	if finding.HasErrors(c.found) {
		return f, c.sortedFindings()
	}
	doc, err := decodeAs[document](data)
	if err != nil {
		line, _, text := syntax(data, err)
		c.addFinding(&yaml.Node{Line: line}, finding.Error, finding.RuleType, "cannot be read: "+text, "")
		return f, c.sortedFindings()
	}
	f.setFields(doc)
	f.decoded = true
	f.validate(c)
	return f, c.sortedFindings()
}

// firstDocument is the first document of a file, and nil where there is none that can be
// checked, with all that was found then.
func (c *checker) firstDocument(data []byte) (*yaml.Node, []finding.Finding) {
	root, more, err := parseNode(data)
	if err != nil {
		return nil, []finding.Finding{SyntaxFinding(c.path, position.Document{Text: data}, err, HintTemplates)}
	}
	if f, over := LeftOver(c.path, position.Document{Text: data}); over {
		return nil, []finding.Finding{f}
	}
	if more != nil {
		c.addFinding(more, finding.Warning, finding.RuleUnknownKey, "only the first document of the file is read", "")
	}
	if root != nil && sizeOf(root).tooLarge() {
		c.addFinding(root, finding.Error, finding.RuleTooLarge, "the file unfolds to too much: aliases stand for too many or too large values", "")
		root = nil
	}
	return root, c.found
}

// decodeAs decodes a file into its type. The YAML package looks at the type to make texts
// of numbers. While it does so, it sets pointers in the value that it is given. For a key
// below helm it looks among the fields of the embedded BundleSpec, and leaves an empty
// RolloutStrategy there for helm.rolloutStrategy. So decodeAs throws that value away and
// decodes the JSON again into an empty one.
func decodeAs[T any](data []byte) (T, error) {
	var doc, scratch T
	var raw json.RawMessage
	var decodeErr error
	keep := func(d *json.Decoder) *json.Decoder {
		decodeErr = d.Decode(&raw)
		return json.NewDecoder(bytes.NewReader(raw))
	}
	if err := sigyaml.Unmarshal(data, &scratch, keep); err != nil {
		return doc, err
	}
	if decodeErr != nil {
		return doc, decodeErr
	}
	return doc, json.Unmarshal(raw, &doc)
}

// nameOf finds the bundle's name in a file that may otherwise be wrong.
func nameOf(root *yaml.Node) string {
	if n := lookup(root, "name"); n != nil && deref(n).Kind == yaml.ScalarNode && !isNull(deref(n)) {
		return deref(n).Value
	}
	return ""
}

// setFields takes over what a fleet.yaml may set. It leaves out what only Fleet may set; the
// checker has warned about it.
func (f *File) setFields(doc document) {
	f.Name, f.Labels, f.Annotations = doc.Name, doc.Labels, doc.Annotations
	f.Spec = doc.BundleSpec
	f.OverrideTargets, f.Overrides = doc.OverrideTargets, doc.OverrideTargets != nil
	for _, scan := range doc.ImageScans {
		f.ImageScans = append(f.ImageScans, scan.ImageScanSpec)
	}
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

// Decoded reports whether the file says something and its fields are set. With
// findings of severity Error that is so where only single values are wrong.
func (f *File) Decoded() bool { return f.decoded }

// Position returns the line and column of the value that keys lead to; where they lead nowhere,
// of the last that exists. Keys are strings, and ints for lists.
func (f *File) Position(keys ...any) (line, column int) {
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

// AtTarget is Position below the place of Spec.Targets[i].
func (f *File) AtTarget(i int, keys ...any) (line, column int) {
	if i < 0 || i >= len(f.customized) {
		return 0, 0
	}
	return f.Position(append(slices.Clone(f.customized[i]), keys...)...)
}

// syntaxLine finds the place in a message of the YAML parser, which gives it in
// no other way.
var syntaxLine = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?(.*)$`)

// SyntaxError returns the line, or 0, and the text of an error of the YAML parser. Contents
// of the file are not in the text.
func SyntaxError(err error) (line int, text string) {
	text = oneLine(err.Error())
	if strings.Contains(text, "map key") {
		return 0, keyText
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return 0, fmt.Sprintf("%s must not be a %s", wrong.Field, strings.Fields(wrong.Value)[0])
	}
	m := syntaxLine.FindStringSubmatch(text)
	if m == nil {
		return 0, strings.TrimPrefix(text, "error converting YAML to JSON: ")
	}
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil {
		line = 0
	}
	return line, m[2]
}

// SyntaxFinding returns the finding about a document of the file path that cannot be parsed
// because of err. It finds what the parser does not: the line of the mistake where the
// parser names a later one, a quote that is not closed, a tab, a marker of a merge
// conflict, and a template of Helm, for which templates is the hint. Otherwise it names the
// usual cause, with the parser's message in brackets.
func SyntaxFinding(path string, doc position.Document, err error, templates string) finding.Finding {
	f := finding.Finding{Path: path, Severity: finding.Error, Rule: finding.RuleYAML}
	line, column, text := syntax(doc.Text, err)
	if text == templateText {
		f.Hint = templates
	}
	if cause, at := usualCause(doc.Text, line, doc.Before, text); cause != "" {
		line, text = at, fmt.Sprintf("%s (%s)", cause, text)
	}
	f.Line, f.Column, f.Message = doc.Before+max(line, 1), column, "YAML: "+text
	return f
}

// HintTemplates is where Fleet renders templates.
const HintTemplates = "Fleet renders ${ } only: below helm.values and helm.templateValues of fleet.yaml, and in the files of helm.valuesFiles"

var ofFleet = regexp.MustCompile(`\$\{[^}]*\.Cluster(Name|Namespace|Labels|Annotations|Values)\b`)

// HasTemplate reports whether a text holds a template that uses Fleet's data about a
// cluster: ${ .ClusterLabels.env }, for example.
func HasTemplate(text string) bool { return ofFleet.MatchString(text) }

const (
	templateText = `"{{ }}" is a template of Helm, and no templates are rendered in this file`
	quoteText    = "a quote is opened here and not closed"
	tabText      = "a tab where spaces indent"
	keyText      = "a key must be a single text or number"
)

// syntax is the place, as far as it is known, and the text of an error about a
// document.
func syntax(document []byte, err error) (line, column int, text string) {
	line, text = SyntaxError(err)
	if text == keyText {
		line, column, _ = position.UnusableKey(position.Root(document))
	} else {
		line = position.SyntaxErrorLine(document, line)
	}
	if at := position.Conflict(document); at > 0 && at <= line {
		return at, 0, position.ConflictText
	}
	if at := position.HelmTemplate(document, line); at > 0 {
		return at, 0, templateText
	}
	if at, ok := position.Unclosed(document, line); ok {
		return line, at, quoteText
	}
	if (text == noToken || text == badIndent) && position.TabIndents(document, line) {
		return line, 0, tabText
	}
	return line, column, text
}

// What the parser says of a tab.
const (
	noToken   = "found character that cannot start any token"
	badIndent = "found a tab character that violates indentation"
)

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
