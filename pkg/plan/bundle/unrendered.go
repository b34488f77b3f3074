package bundle

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// hintChart is the hint for templates of Helm in a plain manifest.
const hintChart = "make the directory a chart: add a Chart.yaml, move the file to templates/, and set values in helm.values of fleet.yaml"

// hintNoChart is the hint for values without templates.
const hintNoChart = "name a chart in helm.chart, or make the directory one: add a Chart.yaml, and move the files to templates/"

// hintValues is the same for templates of Fleet.
const hintValues = "Fleet renders ${ } only below helm.values of fleet.yaml: make the directory a chart whose templates use such a value"

// helmTemplate is a template that names what Helm alone knows. Other programs
// render {{ }}, too.
var helmTemplate = regexp.MustCompile(`\{\{[^}]*(\.(Values|Release|Chart|Capabilities)\.|\binclude ")`)

// unrendered warns of the first template in each document of a plain manifest: it
// is deployed as it stands. A text of several lines may be a template for another
// program.
func (m manifestChecks) unrendered(f file) {
	data, err := f.bytes(m.a.o.Limits.FileBytes)
	if err != nil || !bytes.Contains(data, []byte("{{")) && !bytes.Contains(data, []byte("${")) {
		return
	}
	for _, doc := range position.Documents(data) {
		if isTooLargeToParse(doc.Text) {
			continue
		}
		said := false
		position.Scalars(position.Root(doc.Text), func(n *yaml.Node, keys []any) {
			w := finding.Finding{
				Path: path.Join(m.a.dir.Path, f.name), Line: doc.Before + n.Line, Column: n.Column, Severity: finding.Warning, Rule: finding.RuleNotRendered,
			}
			switch {
			case said:
				return
			case fleetyaml.HasTemplate(n.Value):
				w.Message, w.Hint = position.Path(keys)+" holds ${ }, and Fleet renders no templates in plain manifests", hintValues
			case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && helmTemplate.MatchString(n.Value):
				w.Message, w.Hint = position.Path(keys)+" holds {{ }}, and Helm renders no templates in plain manifests", hintChart
			default:
				return
			}
			said = true
			m.a.addFinding(w)
		})
	}
}

// idleValues warns of values that nothing reads: the bundle names no chart, is none
// and has no templates.
func (c *checks) idleValues() {
	if slices.ContainsFunc(c.a.files, func(f file) bool {
		return strings.HasPrefix(f.name, "templates/") || path.Base(f.name) == chartFile
	}) {
		return
	}
	for _, h := range c.a.helms() {
		key := ""
		switch o := h.options; {
		case h.target >= 0 && len(o.ValuesFiles) > 0: // of the bundle itself they are not read
			key = "valuesFiles"
		case o.Values != nil && len(o.Values.Data) > 0:
			key = "values"
		case len(o.TemplateValues) > 0:
			key = "templateValues"
		case len(o.ValuesFrom) > 0:
			key = "valuesFrom"
		default:
			continue
		}
		f := finding.Finding{
			Path: c.a.file.Path, Severity: finding.Warning, Rule: finding.RuleUnusedValues,
			Message: "helm." + key + " has no effect: the bundle has neither a chart nor templates", Hint: hintNoChart,
		}
		f.Line, f.Column = c.a.helmPosition(h, key)
		c.a.addFinding(f)
	}
}

// booleanKeys warns of keys of plain manifests that are booleans for YAML: the object
// has the key "true" then.
func (m manifestChecks) booleanKeys(f file) {
	data, err := f.bytes(m.a.o.Limits.FileBytes)
	if err != nil || !mayHaveBooleanKeys(data) {
		return
	}
	for _, doc := range position.Documents(data) {
		if isTooLargeToParse(doc.Text) {
			continue
		}
		position.BooleanKeys(position.Root(doc.Text), func(key *yaml.Node, keys []any, counts string) {
			m.a.addFinding(finding.Finding{
				Path: path.Join(m.a.dir.Path, f.name), Line: doc.Before + key.Line, Column: key.Column, Severity: finding.Warning, Rule: finding.RuleType,
				Message: fmt.Sprintf("the key %s counts as %q", printable.Line(position.Path(keys)), counts), Hint: "put it in quotes",
			})
		})
	}
}
