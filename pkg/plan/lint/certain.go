package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// A Dependence holds which values of a chart depend on the cluster: those that templates of
// fleet.yaml fill in. What reads none of these values fails on every cluster if it fails on
// one. Where that is unclear, everything depends on the cluster.
type Dependence struct {
	files   map[string]string // templates and schemas of the bundle, by name
	charts  map[string]bool   // directories with a Chart.yaml
	paths   [][]string        // of the values
	unclear bool              // the templates may set any value
}

const schemaFile = "values.schema.json"

var (
	chartAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// changes is a function that changes its first argument, which may be .Values.
	changes = regexp.MustCompile(`\b(?:set|unset|(?:mustM|m)erge(?:Overwrite)?)\s+(\(\s*dict\b)?`)
	// conditional is a keyword of JSON schema by which one value decides about another.
	conditional = regexp.MustCompile(`"(?:if|oneOf|anyOf|not|dependentSchemas|dependentRequired|dependencies)"\s*:`)
	// ofProperties is a violation about properties that are or are not there.
	ofProperties = regexp.MustCompile(`^(?:missing|additional) propert(?:y|ies) '`)
	propertyName = regexp.MustCompile(`'([^']*)'`)
)

// DependenceOf reads the values and the templates of a bundle.
func DependenceOf(b *fleet.Bundle) *Dependence {
	d := &Dependence{files: map[string]string{}, charts: map[string]bool{}}
	for _, r := range b.Spec.Resources {
		switch {
		case path.Base(r.Name) == "Chart.yaml":
			d.charts[path.Dir(r.Name)] = true
		case path.Base(r.Name) == schemaFile, strings.Contains("/"+r.Name, "/templates/"):
			if data, err := content.ResourceBytes(r); err == nil {
				d.files[r.Name] = string(data)
			}
		}
	}
	d.options(b.Spec.Helm)
	for i := range b.Spec.Targets {
		d.options(b.Spec.Targets[i].Helm)
	}
	for name, text := range d.files {
		if path.Base(name) == schemaFile {
			continue
		}
		for _, action := range chartAction.FindAllString(text, -1) {
			d.unclear = d.unclear || slices.ContainsFunc(changes.FindAllStringSubmatch(action, -1), func(m []string) bool { return m[1] == "" })
		}
	}
	return d
}

func (d *Dependence) options(h *fleet.HelmOptions) {
	if h == nil {
		return
	}
	if h.Values != nil {
		d.recordTemplates(h.Values.Data, nil)
	}
	for key, text := range h.TemplateValues {
		d.paths = append(d.paths, []string{key})
		d.unclear = d.unclear || !standsAlone(text)
	}
}

// recordTemplates notes the texts below a value that are filled in. It takes a list as a whole.
func (d *Dependence) recordTemplates(v any, at []string) {
	switch t := v.(type) {
	case string:
		if strings.Contains(t, "${") || strings.HasPrefix(t, "global.fleet.clusterLabels.") {
			d.paths = append(d.paths, at)
			d.unclear = d.unclear || !standsAlone(t)
		}
	case []any:
		for _, e := range t {
			d.recordTemplates(e, at)
		}
	case map[string]any:
		for key, e := range t {
			d.unclear = d.unclear || strings.Contains(key, "${")
			d.recordTemplates(e, append(slices.Clone(at), key))
		}
	}
}

// standsAlone reports whether the templates of a text begin and end in it, and write
// no other line.
func standsAlone(text string) bool {
	all := map[string]*parse.Tree{}
	tree := parse.New("text")
	tree.Mode = parse.SkipFuncCheck
	_, err := tree.Parse(text, "${", "}", all)
	return err == nil && len(all) <= 1 && !strings.Contains(text, "indent") && !strings.Contains(text, `\n`)
}

// reads reports whether a value depends on the cluster, or one around it or below.
func (d *Dependence) reads(keys []string) bool {
	return slices.ContainsFunc(d.paths, func(p []string) bool {
		n := min(len(p), len(keys))
		return slices.Equal(p[:n], keys[:n])
	})
}

// Violation reports whether it may depend on the cluster that a value does not fit
// the schema of its chart; pointer and text are those of the violation.
func (d *Dependence) Violation(pointer, text string) bool {
	schemas, unclear := 0, d.unclear
	for name, schema := range d.files {
		if path.Base(name) == schemaFile {
			schemas++
			unclear = unclear || conditional.MatchString(schema)
		}
	}
	if unclear || schemas != 1 {
		return true
	}
	var keys []string
	for _, key := range position.Pointer(pointer) {
		keys = append(keys, fmt.Sprint(key))
	}
	if !ofProperties.MatchString(text) {
		return d.reads(keys)
	}
	return slices.ContainsFunc(propertyName.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return d.reads(append(slices.Clone(keys), m[1]))
	})
}

// Line reports whether it may depend on the cluster that a line of a template of the
// chart fails. In templates of charts in the chart everything depends, and in
// named templates. absent says that the line includes a template that is not there.
func (d *Dependence) Line(file string, line int, absent bool) bool {
	text, known := d.files[file]
	chart := path.Dir(file)
	for chart != "." && !d.charts[chart] {
		chart = path.Dir(chart)
	}
	inner := path.Base(path.Dir(chart)) == "charts" && d.charts[path.Dir(path.Dir(chart))]
	all, ok := parseTemplate(file, text)
	if d.unclear || !known || inner || !ok {
		return true
	}
	l := lineCheck{d: d, text: text, line: line, absent: absent}
	l.list(all[file].Root, false, false)
	return !l.found || l.depends
}

// A lineCheck looks for what decides about one line of a template.
type lineCheck struct {
	d       *Dependence
	text    string
	line    int
	absent  bool
	found   bool
	depends bool
}

// list looks through a list of nodes. depends says that it may depend on the cluster
// whether they are executed, moved that the dot is another one than at the top.
func (l *lineCheck) list(list *parse.ListNode, depends, moved bool) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch t := n.(type) {
		case *parse.ActionNode:
			l.checkNode(t, depends, moved)
		case *parse.TemplateNode:
			l.checkNode(t, true, moved)
		case *parse.IfNode:
			l.checkBranch(&t.BranchNode, depends, moved, moved)
		case *parse.WithNode:
			l.checkBranch(&t.BranchNode, depends, moved, true)
		case *parse.RangeNode:
			l.checkBranch(&t.BranchNode, depends, moved, true)
		case *parse.BreakNode, *parse.ContinueNode:
			l.depends = true
		}
	}
}

// checkBranch looks at a condition and its branches; inside is moved for the first of them.
func (l *lineCheck) checkBranch(b *parse.BranchNode, depends, moved, inside bool) {
	l.checkNode(b.Pipe, depends, moved)
	depends = depends || l.reads(b.Pipe, moved, false)
	l.list(b.List, depends, inside)
	l.list(b.ElseList, depends, moved)
}

// checkNode looks at one action or condition, if it is on the line.
func (l *lineCheck) checkNode(n parse.Node, depends, moved bool) {
	first := l.lineOf(n)
	last := first
	eachNode(n, false, func(n parse.Node, _ bool) { last = max(last, l.lineOf(n)) })
	if first <= l.line && l.line <= last {
		l.found = true
		l.depends = l.depends || depends || l.reads(n, moved, l.absent)
	}
}

func (l *lineCheck) lineOf(n parse.Node) int {
	return 1 + strings.Count(l.text[:min(int(n.Position()), len(l.text))], "\n")
}

// reads reports whether an action or a condition may depend on the cluster.
func (l *lineCheck) reads(n parse.Node, moved, absent bool) (depends bool) {
	eachNode(n, false, func(n parse.Node, _ bool) { depends = depends || l.leaf(n, moved, absent) })
	return depends
}

// leaf reports whether the smallest part of a template may depend on the cluster.
func (l *lineCheck) leaf(n parse.Node, moved, absent bool) bool {
	switch t := n.(type) {
	case *parse.FieldNode:
		return moved || l.dependsOnCluster(t.Ident)
	case *parse.VariableNode:
		return t.Ident[0] != "$" || l.dependsOnCluster(t.Ident[1:]) && (!absent || len(t.Ident) > 1)
	case *parse.DotNode:
		return !absent
	case *parse.IdentifierNode:
		switch t.Ident {
		case "include":
			return !absent
		case "tpl", "lookup", "getHostByName":
			return true
		}
		return slices.Contains(impure, t.Ident)
	}
	return false
}

// dependsOnCluster reports whether a field of the data of a chart's template may depend on the
// cluster.
func (l *lineCheck) dependsOnCluster(keys []string) bool {
	if len(keys) < 2 {
		return true
	}
	switch keys[0] {
	case "Values":
		return l.d.reads(keys[1:])
	case "Chart", "Files", "Release", "Template":
		return false
	}
	return true
}

// Fill returns a copy of values in which v stands for everything that depends on the
// cluster.
func (d *Dependence) Fill(values map[string]any, v any) map[string]any {
	out := (&fleet.GenericMap{Data: values}).DeepCopy().Data
	for _, keys := range d.paths {
		at := out
		for _, key := range keys[:len(keys)-1] {
			at, _ = at[key].(map[string]any) // nil holds nothing
		}
		if _, there := at[keys[len(keys)-1]]; there {
			at[keys[len(keys)-1]] = v
		}
	}
	return out
}
