package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

var (
	// helmBraces is a template in the braces of Helm that names what only Fleet knows.
	helmBraces = regexp.MustCompile(`\{\{(?:[^{}]*[^\w.)\]{}])?\$?(\.Cluster(?:Labels|Annotations|Name|Namespace|Values)\b[\w.]*)[^{}]*\}\}`)
	// rebinds is a template of Helm in which a name after a dot may be one of an entry.
	rebinds = regexp.MustCompile(`\{\{-?\s*(?:range|with|define|block)\b`)
)

// braces finds templates in values that are meant for Fleet and have the braces of
// Helm: they reach the chart as they are.
func (c *check) braces() {
	c.bracesOf(c.file.Spec.Helm)
	for i := range c.file.Spec.Targets {
		place, _ := c.file.Target(i)
		c.bracesOf(c.file.Spec.Targets[i].Helm, place...)
	}
}

func (c *check) bracesOf(h *fleet.HelmOptions, place ...any) {
	if h == nil || h.DisablePreProcess {
		return
	}
	for _, key := range []string{"values", "templateValues"} {
		c.file.Texts(func(text fleetyaml.Text) { c.warnBraces(c.file.Path, text) }, append(slices.Clone(place), "helm", key)...)
	}
	if len(place) == 0 && h.Chart == "" && h.Repo == "" {
		return // its values files are not read
	}
	for _, name := range h.ValuesFiles {
		file := path.Join(c.result.Dir.Path, name)
		if data, err := readFile(c.tree, file); err == nil && len(data) <= fleetyaml.MaxBytes {
			fleetyaml.TextsIn(data, func(text fleetyaml.Text) { c.warnBraces(file, text) })
		}
	}
}

// warnBraces warns of the first such template in a text.
func (c *check) warnBraces(file string, text fleetyaml.Text) {
	m := helmBraces.FindStringSubmatchIndex(text.Value)
	if m == nil || fleetyaml.HasTemplate(text.Value) || rebinds.MatchString(text.Value) {
		return
	}
	keys := slices.Clone(text.Keys)
	if file != c.file.Path {
		keys = slices.Concat([]any{"helm", "values"}, keys)
	}
	c.found = append(c.found, finding.Finding{
		Path: file, Line: text.Line + strings.Count(text.Value[:m[0]], "\n"), Column: text.Column,
		Severity: finding.Warning, Rule: finding.RuleNotRendered,
		Message: position.Path(keys) + " holds {{ }} with what only Fleet knows, and Fleet renders ${ } only: the chart gets the text as it is",
		Hint:    "write ${ " + position.ShortName(text.Value[m[2]:m[3]]) + " }",
	})
}
