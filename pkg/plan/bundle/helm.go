package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
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

// addHelmError reports an error in fleet.yaml, below helm.
func (a *assembly) addHelmError(h helm, rule, message, hint string, keys ...any) {
	line, column := a.helmPosition(h, keys...)
	a.addFinding(finding.Finding{
		Path: a.file.Path, Line: line, Column: column, Severity: finding.Error, Rule: rule, Message: message, Hint: hint,
	})
}

// helmPosition is where something stands in fleet.yaml, below helm.
func (a *assembly) helmPosition(h helm, keys ...any) (line, column int) {
	keys = append([]any{"helm"}, keys...)
	if h.target >= 0 {
		return a.file.AtTarget(h.target, keys...)
	}
	return a.file.Position(keys...)
}

// valuesReader reads values files and checks the templates in values.
type valuesReader struct{ *assembly }

// valuesFiles merges files of values over values. Those of the bundle itself
// are merged only if it names a chart, as in rancher/fleet; else a warning says
// that they are not used.
func (v valuesReader) valuesFiles() {
	for _, h := range v.helms() {
		if h.target < 0 && h.options.Chart == "" && h.options.Repo == "" {
			v.unusedValues(h)
			continue
		}
		var merged map[string]any
		if h.options.Values != nil {
			merged = h.options.Values.Data
		}
		for i, name := range h.options.ValuesFiles {
			if v.full {
				return
			}
			if more, ok := v.valuesFile(h, i, name); ok {
				merged = merge(merged, more)
			}
		}
		if len(h.options.ValuesFiles) > 0 && len(merged) > 0 {
			h.options.Values = &fleet.GenericMap{Data: merged}
		}
	}
}

// unusedValues warns of values files that are not read.
func (v valuesReader) unusedValues(h helm) {
	for i, name := range h.options.ValuesFiles {
		f := finding.Finding{
			Path: v.file.Path, Severity: finding.Warning, Rule: finding.RuleUnusedValues,
			Message: fmt.Sprintf("values file %q is not used: helm names neither chart nor repo", name),
			Hint:    `"chart: ." below helm makes Fleet use it`,
		}
		f.Line, f.Column = v.helmPosition(h, "valuesFiles", i)
		v.addFinding(f)
		p := path.Join(v.base, name)
		if !fs.ValidPath(p) {
			continue
		}
		if _, err := v.tree.resolve(p); errors.Is(err, fs.ErrNotExist) {
			f.Rule, f.Message, f.Hint = finding.RuleFile, fmt.Sprintf("values file %q does not exist", name), v.suggestNeighbour(name, isYAML)
			v.addFinding(f)
		}
	}
}

// Bounds of values files. What is left of all those of a bundle has to fit into
// one Secret, of 1 MiB.
const (
	valuesBytes    = 4 << 20  // one file
	allValuesBytes = 16 << 20 // all files of a bundle, each counted as often as it is named
	allValuesFiles = 5000     // how often files are named
)

func (v valuesReader) valuesFile(h helm, i int, name string) (map[string]any, bool) {
	report := func(rule, message, hint string) (map[string]any, bool) {
		v.addHelmError(h, rule, fmt.Sprintf("values file %q %s", name, message), hint, "valuesFiles", i)
		return nil, false
	}
	p := path.Join(v.base, name) // a leading slash is the bundle's directory, as in rancher/fleet
	if !fs.ValidPath(p) {
		return report(finding.RuleOutside, "is not in the repository", "")
	}
	data, err := v.tree.findFile(p, valuesBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && path.IsAbs(name):
		return report(finding.RuleOutside, "is not in the repository", "")
	case errors.Is(err, fs.ErrNotExist):
		return report(finding.RuleFile, "does not exist", v.suggestNeighbour(name, isYAML))
	case errors.Is(err, errOutside):
		return report(finding.RuleOutside, "is a symbolic link that leads out of the repository", "")
	case errors.Is(err, errTooLarge):
		return report(finding.RuleTooLarge, "cannot be read: "+causeOf(err).Error(), "")
	case err != nil:
		return report(finding.RuleFile, "cannot be read: "+causeOf(err).Error(), "")
	}
	shown := path.Join(v.dir.Path, name)
	why, line := aliasBombReason(data)
	if why == "" && isTooLargeToParse(data) {
		why = fmt.Sprintf("there are more than %d values", tokenLimit)
	}
	if why != "" {
		v.addFinding(finding.Finding{Path: shown, Line: line, Severity: finding.Error, Rule: finding.RuleTooLarge, Message: why})
		return nil, false
	}
	var values fleet.GenericMap
	if err := sigyaml.Unmarshal(data, &values); err != nil {
		v.addFinding(fleetyaml.SyntaxFinding(shown, position.Document{Text: data}, err, fleetyaml.HintTemplates))
		return nil, false
	}
	if f, over := fleetyaml.LeftOver(shown, position.Document{Text: data}); over {
		v.addFinding(f)
		return nil, false
	}
	if why := v.spent.onValues(len(data), values.Data); why != "" {
		v.full = true
		return report(finding.RuleTooLarge, "is one too many: "+why, "")
	}
	return values.Data, true
}

// onValues counts a values file of so many bytes and says why it is too much.
func (u *usedLimits) onValues(bytes int, values map[string]any) (why string) {
	count, unfolded := valuesSize(values)
	v := &u.values
	v.files++
	v.count += count
	v.bytes += max(bytes, unfolded)
	switch {
	case v.files > allValuesFiles:
		return fmt.Sprintf("the bundle names values files more than %d times", allValuesFiles)
	case v.bytes > allValuesBytes:
		return fmt.Sprintf("the bundle's values files have more than %d MiB, each counted as often as it is named", allValuesBytes>>20)
	case v.count > 2*tokenLimit:
		return fmt.Sprintf("the bundle's values files have more than %d values, each file counted as often as it is named", 2*tokenLimit)
	}
	return ""
}

// valuesSize is how many values and bytes of text there are in a tree of values.
func valuesSize(v any) (count, bytes int) {
	count = 1
	add := func(v any) {
		n, b := valuesSize(v)
		count, bytes = count+n, bytes+b
	}
	switch t := v.(type) {
	case string:
		bytes = len(t)
	case []any:
		for _, e := range t {
			add(e)
		}
	case map[string]any:
		for key, e := range t {
			bytes += len(key)
			add(e)
		}
	}
	return count, bytes
}

// merge lays one tree of values over another, which it changes; it may take over
// parts of both.
func merge(base, over map[string]any) map[string]any {
	if base == nil {
		return over
	}
	for k, v := range over {
		below, ok1 := base[k].(map[string]any)
		above, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			v = merge(below, above)
		}
		base[k] = v
	}
	return base
}
