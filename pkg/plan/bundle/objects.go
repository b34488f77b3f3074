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
func (k manifestChecks) manifest(data []byte, at documentPosition) {
	switch {
	case len(data) == 0, string(data) == "null", string(data) == "{}":
		if k.blank.file == "" {
			k.blank = at
		}
		return
	case data[0] != '{':
		k.addError(at.file, at.line, finding.RuleManifest, "a manifest must be a mapping with apiVersion, kind and metadata, not "+kindOf(data[0]))
		return
	}
	var o manifestObject
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &o); errors.As(err, &wrong) && wrong.Field != "items" {
		k.addError(at.file, at.line, finding.RuleManifest, fmt.Sprintf("%s must be %s", wrong.Field, wantField(wrong.Field)))
		return
	}
	if o.Kind != "" {
		k.kinds++
	}
	switch {
	case o.Kind == "" && o.APIVersion == "" && (isOptions(data) || isMiscasedFleetYAML(at.file) || misspeltOptions(at.file) && hasOption(data)):
		k.unclear = true
	case o.Kind == "" && o.APIVersion == "":
		k.notDeployed(at, "the document has neither apiVersion nor kind, so it is not deployed")
	case o.Kind == "":
		k.notDeployed(at, "the document has no kind, so it is not deployed")
	case o.APIVersion == "":
		k.addError(at.file, at.line, finding.RuleManifest, o.identity().String()+" has no apiVersion")
	case k.joined(at):
	case o.Items != nil:
		k.checkList(o, at, position.Root(at.doc.Text))
	default:
		k.refuseDuplicate(o, at)
	}
}

// joined warns where another object begins in the same document: the decoder of agents
// takes the last of the keys that stand twice. It reports whether one does.
func (k manifestChecks) joined(at documentPosition) bool {
	if len(apiVersionKey.FindAllIndex(at.doc.Text, 2)) < 2 {
		return false
	}
	joints := position.ObjectLines(position.Root(at.doc.Text))
	for _, line := range joints {
		line += at.doc.Before
		k.a.addFinding(finding.Finding{
			Path: path.Join(k.a.dir.Path, at.file), Line: line, Column: 1, Severity: finding.Warning, Rule: finding.RuleJoined,
			Message: fmt.Sprintf("two objects stand in one document: a line --- is missing before line %d", line),
			Hint:    "without it their keys mix, and only the last object is deployed",
		})
	}
	return len(joints) > 0
}

// checkList checks the objects of a list, each where it stands. root is the document;
// keys lead to the list in it.
func (k manifestChecks) checkList(list manifestObject, at documentPosition, root *yaml.Node, keys ...any) {
	for i, item := range list.Items {
		here := append(slices.Clone(keys), "items", i)
		if line, _, ok := position.Find(root, false, here...); ok {
			at.line = at.doc.Before + line
		}
		at.keys = here
		if item.Items != nil {
			k.checkList(item, at, root, here...)
			continue
		}
		k.refuseDuplicate(item, at)
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

func (k manifestChecks) notDeployed(at documentPosition, message string) {
	if k.kindless == 0 {
		k.noKind = at
	}
	k.kindless++
	k.a.addFinding(finding.Finding{
		Path: path.Join(k.a.dir.Path, at.file), Line: at.line, Severity: finding.Warning, Rule: finding.RuleManifest, Message: message, Hint: hintNoKind,
	})
}

// notAlone changes what would help in the findings of a file that has other documents,
// which are deployed.
func (k manifestChecks) notAlone(found []finding.Finding) {
	for i := range found {
		if found[i].Hint == hintNoKind {
			found[i].Hint = hintNoKindAmong
		}
	}
}

// nothingHasAKind warns of a bundle of plain manifests that deploys none of its documents: they
// have no kind, or nothing at all. Templates and overlays may add objects.
func (k manifestChecks) nothingHasAKind() {
	if k.kinds > 0 || k.dirs[templatesDir] || k.dirs["overlays"] || k.a.hasErrors() {
		return
	}
	at, why := k.noKind, "no document of the bundle has a kind"
	if k.kindless == 0 {
		at, why = k.blank, "the documents of the bundle are empty"
	}
	if at.file == "" || k.kindless == 0 && k.unclear {
		return
	}
	for i := range k.a.found {
		if h := &k.a.found[i].Hint; *h == hintNoKind || *h == hintNoKindAmong {
			*h = hintNoKindAtAll
		}
	}
	k.a.addFinding(finding.Finding{
		Path: path.Join(k.a.dir.Path, at.file), Line: at.line, Severity: finding.Warning, Rule: finding.RuleEmpty,
		Message: nothingLeft + why,
		Hint:    "add what is missing, or remove the directory to remove the bundle",
	})
}

// refuseDuplicate refuses an object that the bundle holds already, and one without a name. Helm makes
// only hooks without one, with generateName: each time another object.
func (k manifestChecks) refuseDuplicate(o manifestObject, at documentPosition) {
	id := o.identity()
	k.hookOfManifest(o, at)
	switch first, again := k.objects[id]; {
	case o.Metadata.Name == "" && o.Kind == "":
	case o.Metadata.Name == "" && o.Metadata.GenerateName != "":
		if !bytes.Contains(o.Metadata.Annotations, []byte(`"`+hookAnnotation+`"`)) {
			k.addError(at.file, at.line, finding.RuleManifest, printable.Line(o.Kind)+" has metadata.generateName and no metadata.name, which Helm cannot install")
		}
	case o.Metadata.Name == "":
		k.addError(at.file, at.line, finding.RuleManifest, printable.Line(o.Kind)+" has no metadata.name")
	case again:
		k.addError(at.file, at.line, finding.RuleDuplicate,
			fmt.Sprintf("%s is in the bundle twice: first in %s:%d", id, path.Join(k.a.dir.Path, first.file), first.line))
	default:
		k.objects[id] = at
		k.warnImpossibleNamespace(o, at)
	}
}

// warnImpossibleNamespace warns of a namespace that no cluster can have, in the words of fleet lint. It
// is no error: a namespace of fleet.yaml or of the GitRepo takes its place.
func (k manifestChecks) warnImpossibleNamespace(o manifestObject, at documentPosition) {
	namespace := o.Metadata.Namespace
	wrong := validation.IsDNS1123Label(namespace)
	if namespace == "" || len(wrong) == 0 || strings.Contains(namespace, "${") {
		return
	}
	why, _, _ := strings.Cut(wrong[0], " (e.g. ")
	k.addAt(at, finding.Finding{
		Severity: finding.Warning, Rule: finding.RuleValue,
		Message: printable.Line(o.Kind+" "+o.Metadata.Name) + ": metadata.namespace is not possible: " + why,
	}, false, "metadata", "namespace")
}

// addAt adds a finding about what keys lead to in an object: its value, or with asKey the
// last key. Where that is not to be found, the finding is about the object.
func (k manifestChecks) addAt(at documentPosition, f finding.Finding, asKey bool, keys ...any) {
	f.Path, f.Line = path.Join(k.a.dir.Path, at.file), at.line
	if line, column, ok := position.Find(position.Root(at.doc.Text), asKey, slices.Concat(at.keys, keys)...); ok {
		f.Line, f.Column = at.doc.Before+line, column
	}
	k.a.addFinding(f)
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
