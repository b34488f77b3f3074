package helm

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// ofNil is how text/template says that something is asked of a value that is not
// there.
var ofNil = regexp.MustCompile(`^nil pointer evaluating interface \{\}\.(\S+)$`)

// ofAbsent returns the message for a template that fails because it reads a field of a
// missing value. ok is false for another error.
func (l locator) ofAbsent(file, expression, text string) (said string, ok bool) {
	m := ofNil.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	if said, ok = l.absentValue(file, expression, m[1]); ok {
		return said, true
	}
	before, _, found := strings.Cut(expression+".", "."+m[1]+".")
	if !found || before == "" {
		return "", false
	}
	said = fmt.Sprintf("%s has no value here, so there is no %s in it", printable.Line(before), printable.Line(m[1]))
	return said + meantBuiltin("", strings.TrimLeft(before, "$.")), true
}

// absentValue says which value a template in a file of the chart lacks, where the
// expression wants a field of it and names it from .Values on.
func (l locator) absentValue(file, expression, field string) (said string, ok bool) {
	rest, ofValues := strings.CutPrefix(strings.TrimPrefix(expression, "$"), ".Values.")
	if !ofValues {
		return "", false
	}
	values, scope := l.valuesFor(file)
	at := values
	steps := strings.Split(rest, ".")
	for i, step := range steps {
		next, exists := at[step]
		if next == nil {
			if i+1 >= len(steps) || steps[i+1] != field {
				return "", false // something else is missing
			}
			if !exists && l.nullKeys(file, expression) != nil {
				return fmt.Sprintf("there is no value %s%s: null in the bundle's values takes the default of the chart away",
					printable.Line(strings.Join(steps[:i+1], ".")), scope), true
			}
			return absentText(steps[:i+1], scope, at, exists), true
		}
		if at, ok = asMapping(next); !ok {
			return "", false
		}
	}
	return "", false
}

// absentText says that the value that steps lead to is missing among its neighbours.
func absentText(steps []string, scope string, neighbours map[string]any, exists bool) string {
	path := printable.Line(strings.Join(steps, "."))
	if exists {
		return fmt.Sprintf("the value %s is null%s", path, scope)
	}
	text := fmt.Sprintf("there is no value %s%s", path, scope)
	last := len(steps) - 1
	var known []string
	for key := range maps.Keys(neighbours) {
		known = append(known, key)
	}
	slices.Sort(known)
	switch near := spelling.Nearest(steps[last], known); {
	case near != "":
		return fmt.Sprintf("%s; did you mean %s?", text, printable.Line(strings.Join(append(slices.Clone(steps[:last]), near), ".")))
	case len(known) > 0 && last > 0:
		return fmt.Sprintf("%s; %s has %s", text, printable.Line(strings.Join(steps[:last], ".")), printable.Line(someOf(known)))
	}
	return text + "; set it in values.yaml of the chart or in helm.values"
}

// valuesFor are those that the templates in a file of the chart see, and which chart
// that is; nothing for the chart itself.
func (l locator) valuesFor(file string) (valuesFor map[string]any, scope string) {
	p, err := partsOf(l.d)
	if err != nil {
		return nil, ""
	}
	valuesFor, err = chartutil.CoalesceValues(p.chart, l.bundleValues())
	if err != nil {
		return nil, ""
	}
	for _, name := range l.subcharts(file) {
		valuesFor, _ = asMapping(valuesFor[name])
		scope = fmt.Sprintf(" for the subchart %s", printable.Line(name))
	}
	return valuesFor, scope
}

// subcharts are the names of the charts that a file of the chart is in, the outermost first.
func (l locator) subcharts(file string) []string {
	var names []string
	rest := strings.TrimPrefix(file, strings.TrimPrefix(l.dir+"/", "./"))
	for {
		sub, ok := strings.CutPrefix(rest, "charts/")
		name, below, deeper := strings.Cut(sub, "/")
		if !ok || !deeper {
			return names
		}
		names, rest = append(names, name), below
	}
}

// bundleValues are the values of the bundle.
func (l locator) bundleValues() map[string]any {
	if v := l.d.helm().Values; v != nil && v.Data != nil {
		return v.Data
	}
	return map[string]any{}
}

// nullKeys are the keys of the value that an expression in a file of the chart names from
// .Values on, as far as the bundle's values set it to null; nil where they do not.
func (l locator) nullKeys(file, expression string) []any {
	rest, ofValues := strings.CutPrefix(strings.TrimPrefix(expression, "$"), ".Values.")
	if !ofValues {
		return nil
	}
	var keys []any
	at := l.bundleValues()
	for _, step := range slices.Concat(l.subcharts(file), strings.Split(rest, ".")) {
		next, exists := at[step]
		keys = append(keys, step)
		if exists && next == nil {
			return keys
		}
		at, _ = asMapping(next)
	}
	return nil
}

func asMapping(v any) (map[string]any, bool) {
	switch m := v.(type) {
	case map[string]any:
		return m, true
	case chartutil.Values:
		return m, true
	}
	return nil, false
}
