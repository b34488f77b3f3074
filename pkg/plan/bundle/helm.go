package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// helm is the Helm options of the bundle or of one target.
type helm struct {
	options *fleet.HelmOptions
	target  int // -1 for the bundle itself
}

// helms are all Helm options of the bundle, its own first.
func (a *assembly) helms() []helm {
	var list []helm
	if a.spec.Helm != nil {
		list = append(list, helm{a.spec.Helm, -1})
	}
	for i := range a.spec.Targets {
		if h := a.spec.Targets[i].Helm; h != nil {
			list = append(list, helm{h, i})
		}
	}
	return list
}

// fail reports an error in fleet.yaml, below helm.
func (a *assembly) fail(h helm, rule, message, hint string, keys ...any) {
	keys = append([]any{"helm"}, keys...)
	line, column := a.file.At(keys...)
	if h.target >= 0 {
		line, column = a.file.AtTarget(h.target, keys...)
	}
	a.add(finding.Finding{
		Path: a.file.Path, Line: line, Column: column, Severity: finding.Error, Rule: rule, Message: message, Hint: hint,
	})
}

// valuesFiles merges files of values over values. Those of the bundle itself
// are merged only if it names a chart, as in the reference.
func (a *assembly) valuesFiles() {
	for _, h := range a.helms() {
		if h.target < 0 && h.options.Chart == "" && h.options.Repo == "" {
			continue
		}
		var merged map[string]any
		if h.options.Values != nil {
			merged = h.options.Values.Data
		}
		for i, name := range h.options.ValuesFiles {
			if more, ok := a.valuesFile(h, i, name); ok {
				merged = merge(merged, more)
			}
		}
		if len(h.options.ValuesFiles) > 0 && len(merged) > 0 {
			h.options.Values = &fleet.GenericMap{Data: merged}
		}
	}
}

func (a *assembly) valuesFile(h helm, i int, name string) (map[string]any, bool) {
	p := path.Join(a.dir.Path, name)
	if !fs.ValidPath(p) || path.IsAbs(name) {
		a.fail(h, finding.RuleOutside, fmt.Sprintf("values file %q is not in the repository", name), "", "valuesFiles", i)
		return nil, false
	}
	data, err := fs.ReadFile(a.root, p)
	if errors.Is(err, fs.ErrNotExist) {
		a.fail(h, finding.RuleFile, fmt.Sprintf("values file %q does not exist", name), a.neighbour(p), "valuesFiles", i)
		return nil, false
	}
	if err != nil {
		a.fail(h, finding.RuleFile, fmt.Sprintf("values file %q cannot be read: %v", name, cause(err)), "", "valuesFiles", i)
		return nil, false
	}
	var values fleet.GenericMap
	if err := sigyaml.Unmarshal(data, &values); err != nil {
		line, text := fleetyaml.SyntaxError(err)
		a.add(finding.Finding{Path: p, Line: line, Severity: finding.Error, Rule: finding.RuleYAML, Message: "YAML: " + text})
		return nil, false
	}
	return values.Data, true
}

// neighbour names a file that was probably meant.
func (a *assembly) neighbour(p string) string {
	entries, err := fs.ReadDir(a.root, path.Dir(p))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := view.Nearest(path.Base(p), names); near != "" {
		return fmt.Sprintf("there is %q", near)
	}
	return ""
}

// merge lays one tree of values over another; neither is changed.
func merge(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range over {
		below, ok1 := out[k].(map[string]any)
		above, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			out[k] = merge(below, above)
			continue
		}
		out[k] = v
	}
	return out
}

// charts refuses charts that are not in the bundle: downloading is not
// implemented. One finding per distinct chart.
func (a *assembly) charts() {
	var seen []string
	for _, h := range a.helms() {
		o := h.options
		key := o.Repo + "\x00" + o.Chart
		if o.Repo == "" && o.Chart == "" || slices.Contains(seen, key) {
			continue
		}
		seen = append(seen, key)
		if o.Repo != "" {
			a.fail(h, finding.RuleNotImplemented, fmt.Sprintf("helm.repo %q: downloading charts is not implemented yet", o.Repo),
				"put the chart into the repository", "repo")
			continue
		}
		p := path.Join(a.dir.Path, o.Chart)
		info, err := fs.Stat(a.root, p)
		switch {
		case strings.Contains(o.Chart, "://"), !fs.ValidPath(p), err != nil:
			a.fail(h, finding.RuleNotImplemented, fmt.Sprintf("helm.chart %q is no directory here, and downloading charts is not implemented yet", o.Chart),
				"put the chart into the repository", "chart")
		case !within(a.dir.Path, p):
			a.fail(h, finding.RuleOutside, fmt.Sprintf("helm.chart %q is outside of the bundle's directory", o.Chart),
				"move it below, or add a fleet.yaml further up", "chart")
		case !info.IsDir():
			a.fail(h, finding.RuleNotImplemented, fmt.Sprintf("helm.chart %q is an archive; only directories are implemented yet", o.Chart),
				"unpack it", "chart")
		}
	}
}
