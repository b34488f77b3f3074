package bundle

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

const (
	hintAddChart = "add a Chart.yaml, with apiVersion: v2, name and version"
	hintNoneHere = "add a Chart.yaml to it, or remove helm.chart"
)

// chartless is the directory of the bundle that Helm options name as their chart, where it
// has no Chart.yaml: agents deploy the bundle without a chart then, as rancher/fleet does.
func (c *checks) chartless(h helm) (dir string, ok bool) {
	name := h.options.Chart
	if h.options.Repo != "" || name == "" || strings.Contains(name, "://") {
		return "", false
	}
	dir = path.Clean(strings.TrimLeft(name, "/"))
	if !isWithin(".", dir) || c.isFile(path.Join(dir, chartFile)) {
		return "", false
	}
	at, err := c.a.tree.resolve(path.Join(c.a.base, dir))
	return dir, err == nil && isWithin(c.a.base, at) && c.a.tree.isDir(at)
}

// chartlessDirs warns of directories that helm.chart names and that are no charts. A file
// that is meant to be the Chart.yaml has a finding of its own.
func (t templateChecks) chartlessDirs() {
	var said []string
	charts := t.chartDirs()
	for _, h := range t.a.helms() {
		dir, ok := t.chartless(h)
		if !ok || slices.Contains(said, dir) || t.a.hasTooManyFindings() {
			continue
		}
		if said = append(said, dir); t.hasFinding(path.Join(dir, chartFile)) || t.isMisnamedChart(dir, charts) {
			continue
		}
		f := finding.Finding{
			Path: t.a.file.Path, Severity: finding.Warning, Rule: finding.RuleChart,
			Message: fmt.Sprintf("helm.chart %q has no Chart.yaml: the bundle is deployed without a chart", h.options.Chart), Hint: hintNoneHere,
		}
		var below []string
		for _, other := range t.a.files {
			if at := path.Dir(other.name); path.Base(other.name) == chartFile && isWithin(dir, at) {
				below = append(below, at)
			}
		}
		if len(below) == 1 {
			f.Hint = fmt.Sprintf("did you mean %q?", below[0])
		}
		f.Line, f.Column = t.a.helmPosition(h, "chart")
		t.a.addFinding(f)
	}
}

// isMisnamedChart reports whether a directory has a file that is meant to be its Chart.yaml.
func (t templateChecks) isMisnamedChart(dir string, charts []string) bool {
	return slices.ContainsFunc(t.a.files, func(f file) bool {
		return path.Dir(f.name) == dir && t.chartFileMeant(f, charts) == chartFile
	})
}

// ofValues is where a template reads a value. Fleet itself gives those below global.
var (
	ofValues = regexp.MustCompile(`\.Values\.([A-Za-z0-9_]+)`)
	optional = regexp.MustCompile(`\b(default|coalesce)\b`)
)

// templatesAlone warns of what is not read beside the templates of a bundle that has no
// Chart.yaml: agents render the templates, and of their chart nothing else.
func (t templateChecks) templatesAlone() {
	var templates []file
	for _, f := range t.a.files {
		if strings.HasPrefix(f.name, templatesDir+"/") && !t.nested(path.Dir(f.name)) {
			templates = append(templates, f)
		}
	}
	if len(templates) == 0 || t.isMisnamedChart(".", []string{"."}) {
		return
	}
	unread := func(f file) {
		t.notRead(f, path.Base(f.name)+" is not read: the directory has templates and no Chart.yaml", hintAddChart)
	}
	if f, ok := t.byName[valuesFile]; ok {
		unread(f)
	} else if !t.hasValues() {
		t.withoutValues(templates)
	}
	for _, f := range templates {
		if path.Ext(f.name) == ".tpl" {
			unread(f)
		}
	}
}

// hasValues reports whether there are values for any cluster.
func (t templateChecks) hasValues() bool {
	return slices.ContainsFunc(t.a.helms(), func(h helm) bool {
		o := h.options
		return o.Values != nil && len(o.Values.Data) > 0 || len(o.TemplateValues) > 0 || len(o.ValuesFrom) > 0
	})
}

// withoutValues warns of the first value that templates read where there are none.
func (t templateChecks) withoutValues(templates []file) {
	for _, f := range templates {
		data, err := f.bytes(templateBytes)
		if err != nil || !isManifest(f.name) || t.hasFinding(f.name) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(data)) {
			number++
			m := ofValues.FindStringSubmatchIndex(line)
			if m == nil || line[m[2]:m[3]] == "global" || optional.MatchString(line) || !strings.Contains(line[:m[0]], "{{") {
				continue
			}
			t.a.addFinding(finding.Finding{
				Path: path.Join(t.a.dir.Path, f.name), Line: number, Column: m[0] + 1, Severity: finding.Warning, Rule: finding.RuleUnmatched,
				Message: fmt.Sprintf("there is no value %s: without a Chart.yaml values come from helm.values alone, and %s has none", line[m[2]:m[3]], fleetyaml.Names[0]),
				Hint:    hintAddChart,
			})
			return
		}
	}
}
