package bundle

import (
	"path"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// schemaFile is the file of a chart with the JSON schema of its values.
const schemaFile = "values.schema.json"

// schemas refuses schemas of the bundle's charts that are no JSON: Helm refuses all values
// for one. Charts within a chart may be switched off, and are not looked at.
func (c *checks) schemas() {
	for i, dir := range c.chartDirs() {
		name := path.Join(dir, schemaFile)
		f, ok := c.byName[name]
		if !ok || c.done[name] || !c.hasFile(dir, []string{chartFile}) || i == 0 && c.namesChart() {
			continue
		}
		c.done[name] = true
		data, err := f.bytes(c.a.o.Limits.FileBytes)
		if err != nil {
			continue
		}
		line, column, text := position.JSONMistake(data)
		if text == "" {
			continue
		}
		at := finding.Finding{
			Path: path.Join(c.a.dir.Path, name), Line: line, Column: column, Severity: finding.Error, Rule: finding.RuleYAML, Message: "JSON: " + text,
		}
		if h := c.a.spec.Helm; h != nil && h.SkipSchemaValidation {
			at.Severity, at.Hint = finding.Warning, "helm.skipSchemaValidation is set, so nothing reads it"
		}
		c.a.addFinding(at)
	}
}

// namesChart reports whether the bundle's options name its chart, so that one at the top of
// the bundle is not deployed.
func (c *checks) namesChart() bool {
	h := c.a.spec.Helm
	return h != nil && (h.Chart != "" || h.Repo != "")
}
