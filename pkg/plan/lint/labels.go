package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

var (
	// getsLabel is a function that gives a label and does not fail where there is none.
	getsLabel = regexp.MustCompile(`(?:get|index)\s+\$?\.ClusterLabels\s+"([^"]+)"`)
	// onlyLabel is a value that is such a function and nothing else.
	onlyLabel = regexp.MustCompile(`^\$\{-?\s*(get|index)\s+\$?\.ClusterLabels\s+"[^"]+"\s*-?\}$`)
)

// Labels warns of templates in fleet.yaml that ask for a label with get or index, which do
// not fail without it. It warns of a label that is written nearly like one that the
// clusters have, and of a value that is null or "<no value>" where a cluster lacks the
// label. labels are those of the clusters that get the bundle, and where names the clusters
// for people. Clusters for which templates are not rendered lack nothing.
func Labels(file *fleetyaml.File, labels []map[string]string, where string) []finding.Finding {
	c := &check{file: *file}
	if len(labels) > 0 {
		c.labelsIn(file.Spec.Helm, labels, where)
		for i := range file.Spec.Targets {
			place, _ := file.Target(i)
			c.labelsIn(file.Spec.Targets[i].Helm, labels, where, place...)
		}
	}
	finding.Sort(c.found)
	return c.found
}

func (c *check) labelsIn(h *fleet.HelmOptions, labels []map[string]string, where string, place ...any) {
	if h == nil || h.DisablePreProcess {
		return
	}
	c.file.Texts(func(text fleetyaml.Text) {
		for _, m := range getsLabel.FindAllStringSubmatch(text.Value, -1) {
			message, hint := lackingLabel(m[1], withoutLabel(text.Value), labels, where)
			if message == "" {
				continue
			}
			c.found = append(c.found, finding.Finding{
				Path: c.file.Path, Line: text.Line, Column: text.Column, Severity: finding.Warning, Rule: finding.RuleRender,
				Message: position.Path(text.Keys) + ": " + message, Hint: hint,
			})
		}
	}, append(slices.Clone(place), "helm", "values")...)
}

// What a value becomes that is a label and nothing else, on a cluster without the label.
const (
	null    = "null"
	noValue = `"<no value>"`
)

// withoutLabel returns the value on a cluster without the label that the value is;
// empty for a value that is more than a label.
func withoutLabel(text string) string {
	switch m := onlyLabel.FindStringSubmatch(text); {
	case m == nil:
		return ""
	case m[1] == "index":
		return noValue
	}
	return null
}

// lackingLabel returns message and hint for a label that a template asks for; becomes
// is the result of withoutLabel.
func lackingLabel(label, becomes string, labels []map[string]string, where string) (message, hint string) {
	sets := "null takes the chart's default away, and | default \"x\" sets one"
	if becomes == noValue {
		sets = fmt.Sprintf("get .ClusterLabels %q | default \"x\" sets a default", label)
	}
	var known []string
	without := 0
	for _, set := range labels {
		if _, has := set[label]; !has && values.Renders(set) {
			without++
		}
		for key := range set {
			known = append(known, key)
		}
	}
	near := ""
	if !slices.Contains(known, label) {
		near = spelling.Nearest(label, known)
	}
	switch {
	case near != "":
		return fmt.Sprintf("none of the clusters in %s has label %q", where, label), fmt.Sprintf("did you mean %q?", near)
	case becomes != "" && without == len(labels):
		return fmt.Sprintf("the value is %s: none of the clusters in %s has label %q", becomes, where, label), sets
	case becomes != "" && without > 0:
		return fmt.Sprintf("the value is %s for %d of %d clusters in %s, which have no label %q", becomes, without, len(labels), where, label), sets
	}
	return "", ""
}

// FirstTemplate returns the line and column of the first template of values in fleet.yaml;
// 0 where there is none.
func FirstTemplate(file *fleetyaml.File) (line, column int) {
	visit := func(text fleetyaml.Text) {
		if strings.Contains(text.Value, "${") && (line == 0 || text.Line < line) {
			line, column = text.Line, text.Column
		}
	}
	file.Texts(visit, "helm")
	for i := range file.Spec.Targets {
		place, _ := file.Target(i)
		file.Texts(visit, append(slices.Clone(place), "helm")...)
	}
	return line, column
}
