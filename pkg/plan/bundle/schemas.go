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
func (k *checks) schemas() {
	for i, dir := range k.chartDirs() {
		name := path.Join(dir, schemaFile)
		f, ok := k.byName[name]
		if !ok || k.done[name] || !k.hasFile(dir, []string{chartFile}) || i == 0 && k.namesChart() {
			continue
		}
		k.done[name] = true
		data, err := f.bytes(k.a.o.Limits.FileBytes)
		if err != nil {
			continue
		}
		line, column, text := position.JSONMistake(data)
		if text == "" {
			continue
		}
		at := finding.Finding{
			Path: path.Join(k.a.dir.Path, name), Line: line, Column: column, Severity: finding.Error, Rule: finding.RuleYAML, Message: "JSON: " + text,
		}
		if h := k.a.spec.Helm; h != nil && h.SkipSchemaValidation {
			at.Severity, at.Hint = finding.Warning, "helm.skipSchemaValidation is set, so nothing reads it"
		}
		k.a.addFinding(at)
	}
}

// namesChart reports whether the bundle's options name its chart, so that one at the top of
// the bundle is not deployed.
func (k *checks) namesChart() bool {
	h := k.a.spec.Helm
	return h != nil && (h.Chart != "" || h.Repo != "")
}
