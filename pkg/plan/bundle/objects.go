package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// An manifestObject is what a manifest says of itself.
type manifestObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`

		Annotations json.RawMessage `json:"annotations"`
	} `json:"metadata"`
	Items []manifestObject `json:"items"`
}

// An identity distinguishes the objects of a bundle. Two versions of one group are
// the same object.
type identity struct{ group, kind, namespace, name string }

func (o manifestObject) identity() identity {
	group, _, versioned := strings.Cut(o.APIVersion, "/")
	if !versioned {
		group = "" // the core group has no name
	}
	return identity{group, o.Kind, o.Metadata.Namespace, o.Metadata.Name}
}

// String returns kind and name, as they may stand in messages.
func (i identity) String() string {
	name := i.name
	if i.namespace != "" {
		name = i.namespace + "/" + name
	}
	return printable.Line(i.kind + " " + name)
}

// A documentPosition is where a document stands.
type documentPosition struct {
	file string // in the bundle
	line int
	doc  position.Document
	keys []any // that lead to it in the document; none for the document itself
}

// apiVersionKey matches the key apiVersion in the outermost mapping of a
// document.
var apiVersionKey = regexp.MustCompile(`(?m)^["']?apiVersion["']?\s*:`)

// manifest checks one document of a plain manifest, which is data as JSON. It reports an
// error for what agents refuse. It warns of a document without kind, which neither Fleet
// nor rancher/fleet deploys.
func (m manifestChecks) manifest(data []byte, at documentPosition) {
	switch {
	case len(data) == 0, string(data) == "null", string(data) == "{}":
		if m.blank.file == "" {
			m.blank = at
		}
		return
	case data[0] != '{':
		m.addError(at.file, at.line, finding.RuleManifest, "a manifest must be a mapping with apiVersion, kind and metadata, not "+kindOf(data[0]))
		return
	}
	var o manifestObject
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &o); errors.As(err, &wrong) && wrong.Field != "items" {
		m.addError(at.file, at.line, finding.RuleManifest, fmt.Sprintf("%s must be %s", wrong.Field, wantField(wrong.Field)))
		return
	}
	if o.Kind != "" {
		m.kinds++
	}
	switch {
	case o.Kind == "" && o.APIVersion == "" && (isOptions(data) || isMiscasedFleetYAML(at.file) || misspeltOptions(at.file) && hasOption(data)):
		m.unclear = true
	case o.Kind == "" && o.APIVersion == "":
		m.notDeployed(at, "the document has neither apiVersion nor kind, so it is not deployed")
	case o.Kind == "":
		m.notDeployed(at, "the document has no kind, so it is not deployed")
	case o.APIVersion == "":
		m.addError(at.file, at.line, finding.RuleManifest, o.identity().String()+" has no apiVersion")
	case m.joined(at):
	case o.Items != nil:
		m.checkList(o, at, position.Root(at.doc.Text))
	default:
		m.refuseDuplicate(o, at)
	}
}

// joined warns where another object begins in the same document: the decoder of agents
// takes the last of the keys that stand twice. It reports whether one does.
func (m manifestChecks) joined(at documentPosition) bool {
	if len(apiVersionKey.FindAllIndex(at.doc.Text, 2)) < 2 {
		return false
	}
	joints := position.ObjectLines(position.Root(at.doc.Text))
	for _, line := range joints {
		line += at.doc.Before
		m.a.addFinding(finding.Finding{
			Path: path.Join(m.a.dir.Path, at.file), Line: line, Column: 1, Severity: finding.Warning, Rule: finding.RuleJoined,
			Message: fmt.Sprintf("two objects stand in one document: a line --- is missing before line %d", line),
			Hint:    "without it their keys mix, and only the last object is deployed",
		})
	}
	return len(joints) > 0
}

// checkList checks the objects of a list, each where it stands. root is the document;
// keys lead to the list in it.
func (m manifestChecks) checkList(list manifestObject, at documentPosition, root *yaml.Node, keys ...any) {
	for i, item := range list.Items {
		here := append(slices.Clone(keys), "items", i)
		if line, _, ok := position.Find(root, false, here...); ok {
			at.line = at.doc.Before + line
		}
		at.keys = here
		if item.Items != nil {
			m.checkList(item, at, root, here...)
			continue
		}
		m.refuseDuplicate(item, at)
	}
}

// isOptions reports whether a document looks like a fleet.yaml by another name: the
// options of another bundle of the directory.
func isOptions(data []byte) bool {
	var doc map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil {
		return false
	}
	for key := range doc {
		if !fleetyaml.Known(key) {
			return false
		}
	}
	return true
}

// hasOption reports whether a document has a key of a fleet.yaml and is no object.
func hasOption(data []byte) bool {
	var doc map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil || doc["kind"] != nil || doc["apiVersion"] != nil {
		return false
	}
	for key := range doc {
		if fleetyaml.Known(key) {
			return true
		}
	}
	return false
}

func wantField(field string) string {
	if strings.HasSuffix(field, "metadata") {
		return "a mapping"
	}
	return "a text; put it in quotes"
}

func kindOf(first byte) string {
	switch first {
	case '[':
		return "a list"
	case '"':
		return "a text"
	}
	return "a single value"
}

// What helps where a document has no kind.
const (
	hintNoKind      = "add what is missing, or list the file in .fleetignore"
	hintNoKindAmong = "add what is missing, or remove the document: .fleetignore would leave out the other documents of the file, too"
	hintNoKindAtAll = "add what is missing: a .fleetignore that leaves nothing to deploy is an error"
)

func (m manifestChecks) notDeployed(at documentPosition, message string) {
	if m.kindless == 0 {
		m.noKind = at
	}
	m.kindless++
	m.a.addFinding(finding.Finding{
		Path: path.Join(m.a.dir.Path, at.file), Line: at.line, Severity: finding.Warning, Rule: finding.RuleManifest, Message: message, Hint: hintNoKind,
	})
}

// notAlone changes what would help in the findings of a file that has other documents,
// which are deployed.
func (m manifestChecks) notAlone(found []finding.Finding) {
	for i := range found {
		if found[i].Hint == hintNoKind {
			found[i].Hint = hintNoKindAmong
		}
	}
}

// nothingHasAKind warns of a bundle of plain manifests that deploys none of its documents: they
// have no kind, or nothing at all. Templates and overlays may add objects.
func (m manifestChecks) nothingHasAKind() {
	if m.kinds > 0 || m.dirs[templatesDir] || m.dirs["overlays"] || m.a.hasErrors() {
		return
	}
	at, why := m.noKind, "no document of the bundle has a kind"
	if m.kindless == 0 {
		at, why = m.blank, "the documents of the bundle are empty"
	}
	if at.file == "" || m.kindless == 0 && m.unclear {
		return
	}
	for i := range m.a.found {
		if h := &m.a.found[i].Hint; *h == hintNoKind || *h == hintNoKindAmong {
			*h = hintNoKindAtAll
		}
	}
	m.a.addFinding(finding.Finding{
		Path: path.Join(m.a.dir.Path, at.file), Line: at.line, Severity: finding.Warning, Rule: finding.RuleEmpty,
		Message: nothingLeft + why,
		Hint:    "add what is missing, or remove the directory to remove the bundle",
	})
}

// refuseDuplicate refuses an object that the bundle holds already, and one without a name. Helm makes
// only hooks without one, with generateName: each time another object.
func (m manifestChecks) refuseDuplicate(o manifestObject, at documentPosition) {
	id := o.identity()
	m.hookOfManifest(o, at)
	switch first, again := m.objects[id]; {
	case o.Metadata.Name == "" && o.Kind == "":
	case o.Metadata.Name == "" && o.Metadata.GenerateName != "":
		if !bytes.Contains(o.Metadata.Annotations, []byte(`"`+hookAnnotation+`"`)) {
			m.addError(at.file, at.line, finding.RuleManifest, printable.Line(o.Kind)+" has metadata.generateName and no metadata.name, which Helm cannot install")
		}
	case o.Metadata.Name == "":
		m.addError(at.file, at.line, finding.RuleManifest, printable.Line(o.Kind)+" has no metadata.name")
	case again:
		m.addError(at.file, at.line, finding.RuleDuplicate,
			fmt.Sprintf("%s is in the bundle twice: first in %s:%d", id, path.Join(m.a.dir.Path, first.file), first.line))
	default:
		m.objects[id] = at
		m.warnImpossibleNamespace(o, at)
	}
}

// warnImpossibleNamespace warns of a namespace that no cluster can have, in the words of fleet lint. It
// is no error: a namespace of fleet.yaml or of the GitRepo takes its place.
func (m manifestChecks) warnImpossibleNamespace(o manifestObject, at documentPosition) {
	namespace := o.Metadata.Namespace
	wrong := validation.IsDNS1123Label(namespace)
	if namespace == "" || len(wrong) == 0 || strings.Contains(namespace, "${") {
		return
	}
	why, _, _ := strings.Cut(wrong[0], " (e.g. ")
	m.addAt(at, finding.Finding{
		Severity: finding.Warning, Rule: finding.RuleValue,
		Message: printable.Line(o.Kind+" "+o.Metadata.Name) + ": metadata.namespace is not possible: " + why,
	}, false, "metadata", "namespace")
}

// addAt adds a finding about what keys lead to in an object: its value, or with asKey the
// last key. Where that is not to be found, the finding is about the object.
func (m manifestChecks) addAt(at documentPosition, f finding.Finding, asKey bool, keys ...any) {
	f.Path, f.Line = path.Join(m.a.dir.Path, at.file), at.line
	if line, column, ok := position.Find(position.Root(at.doc.Text), asKey, slices.Concat(at.keys, keys)...); ok {
		f.Line, f.Column = at.doc.Before+line, column
	}
	m.a.addFinding(f)
}

// firstLine is the first line of a document with something in it, from 1.
func firstLine(doc []byte) int {
	number := 0
	for line := range bytes.Lines(doc) {
		number++
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			return number
		}
	}
	return 1
}
