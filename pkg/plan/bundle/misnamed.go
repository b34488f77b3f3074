package bundle

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// templatesDir is the directory of a chart's templates.
const templatesDir = "templates"

// valuesFile holds the defaults of a chart's values.
const valuesFile = "values.yaml"

// misnamed warns of kustomizations, files of charts and directories of templates whose
// names are one slip away from those that are read.
func (c *checks) misnamed() {
	warn := func(name, meant string) {
		c.a.addFinding(finding.Finding{
			Path: path.Join(c.a.dir.Path, name), Severity: finding.Warning, Rule: finding.RuleNotRead,
			Message: fmt.Sprintf("%s is not read as %s", path.Base(name), meant), Hint: fmt.Sprintf("did you mean %q?", meant),
		})
	}
	charts := c.chartDirs()
	for _, f := range c.a.files {
		if meant := c.kustomizationMeant(f); meant != "" && !c.nested(path.Dir(f.name)) {
			warn(f.name, meant)
		}
		if meant := c.chartFileMeant(f, charts); meant != "" {
			warn(f.name, meant)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(c.dirs)) {
		parent := path.Dir(dir)
		if slices.Contains(charts, parent) && c.hasFile(parent, []string{chartFile}) && !c.dirs[path.Join(parent, templatesDir)] &&
			spelling.SingleTypo(path.Base(dir), []string{templatesDir}) != "" {
			warn(dir, templatesDir)
		}
	}
}

// kustomizationMeant is the name that a file must have to be read as the kustomization
// that it is; empty where it is none, or where the directory has one.
func (c *checks) kustomizationMeant(f file) string {
	meant := spelling.SingleTypo(path.Base(f.name), kustomizations)
	if meant == "" || c.hasFile(path.Dir(f.name), kustomizations) {
		return ""
	}
	data, err := f.bytes(c.a.o.Limits.FileBytes)
	if err != nil || isTooLargeToParse(data) || bytes.Contains(data, []byte("{{")) {
		return ""
	}
	root := position.Root(data)
	kind, hasKind := position.Text(root, "kind")
	version, _ := position.Text(root, "apiVersion")
	if root == nil || hasKind && (kind != "Kustomization" || !strings.HasPrefix(version, "kustomize.config.k8s.io/")) {
		return "" // an object, such as a Kustomization of Flux
	}
	return meant
}

// chartDirs are the directories that are, or may be meant to be, charts of the bundle.
func (c *checks) chartDirs() []string {
	charts := []string{"."}
	for _, h := range c.a.helms() {
		if h.options.Repo == "" && h.options.Chart != "" {
			charts = append(charts, path.Clean(h.options.Chart))
		}
	}
	return charts
}

// chartFileMeant is the name that a file in one of the directories must have to be read as
// the Chart.yaml or values.yaml that it is; empty where it is none, or where there is one.
func (c *checks) chartFileMeant(f file, charts []string) string {
	dir, base := path.Split(f.name)
	dir = path.Clean(dir)
	lower := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(base), ".yaml"), ".yml")
	meant := map[string]string{"chart": chartFile, "values": valuesFile}[lower]
	switch {
	case meant == "" || lower == strings.ToLower(base) || !slices.Contains(charts, dir) || c.hasFile(dir, []string{meant}):
		return ""
	case meant == chartFile && !c.looksLikeChart(f), meant == valuesFile && !c.hasFile(dir, []string{chartFile}), c.isValuesFile(f.name):
		return ""
	}
	return meant
}

// looksLikeChart reports whether a file says what a Chart.yaml says.
func (c *checks) looksLikeChart(f file) bool {
	data, err := f.bytes(c.a.o.Limits.FileBytes)
	if err != nil || isTooLargeToParse(data) || bytes.Contains(data, []byte("{{")) {
		return false
	}
	root := position.Root(data)
	_, name := position.Text(root, "name")
	_, version := position.Text(root, "version")
	_, kind := position.Text(root, "kind")
	return name && version && !kind
}

// isValuesFile reports whether helm.valuesFiles of the bundle, or of a customization, name
// a file.
func (c *checks) isValuesFile(name string) bool {
	return slices.ContainsFunc(c.a.helms(), func(h helm) bool {
		return slices.ContainsFunc(h.options.ValuesFiles, func(v string) bool { return path.Clean(v) == name })
	})
}
