package bundle

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	gotemplate "text/template/parse"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// valuesTemplates refuses templates of values that cannot be parsed: they fail on
// every cluster.
func (v valuesReader) valuesTemplates() {
	if root := v.spec.Helm; root != nil && root.DisablePreProcess {
		return // for customizations, too
	}
	for _, h := range v.helms() {
		if !h.options.DisablePreProcess {
			v.templatesOf(h)
		}
	}
}

func (v valuesReader) templatesOf(h helm) {
	var whole *values.SyntaxError
	if h.options.Values != nil {
		whole = values.ParseTree(h.options.Values.Data)
	}
	if whole != nil && !v.templateTexts(h, "values") && !v.templatesOfFiles(h) {
		line, column := v.helmPosition(h, "values")
		whole.Line = 1
		v.badTemplate(v.file.Path, whole, fleetyaml.Text{Keys: []any{"helm", "values"}, Line: line, Column: column}, h)
	}
	for _, text := range h.options.TemplateValues {
		if values.Parse(text) != nil {
			v.templateTexts(h, "templateValues")
			return
		}
	}
}

// templateTexts reports the texts below a key of helm in fleet.yaml that are no
// templates on their own, and whether there are any.
func (v valuesReader) templateTexts(h helm, key string) (some bool) {
	place := []any{"helm", key}
	if h.target >= 0 {
		keys, _ := v.file.Target(h.target)
		place = append(keys, place...)
	}
	v.file.Texts(func(text fleetyaml.Text) {
		if err := values.Parse(text.Value); err != nil {
			some = true
			v.badTemplate(v.file.Path, err, text, h)
		}
	}, place...)
	return some
}

// templatesOfFiles is templateTexts for values files, which have been read
// before.
func (v valuesReader) templatesOfFiles(h helm) (some bool) {
	for _, name := range h.options.ValuesFiles {
		data, err := v.tree.findFile(path.Join(v.base, name), valuesBytes)
		if err != nil {
			continue
		}
		fleetyaml.TextsIn(data, func(text fleetyaml.Text) {
			if err := values.Parse(text.Value); err != nil {
				some = true
				v.badTemplate(path.Join(v.dir.Path, name), err, text, h)
			}
		})
	}
	return some
}

// reaching are functions that ask the network or the environment. Templates of
// values do not have them, those of charts do.
var reaching = []string{"getHostByName", "env", "expandenv"}

// badTemplate reports that a text of a file is no template. Where a customization switches templates off, the bundle's own may never
// be rendered: that is a warning.
func (v valuesReader) badTemplate(file string, err *values.SyntaxError, text fleetyaml.Text, h helm) {
	f := finding.Finding{
		Path: file, Line: text.Line + err.Line - 1, Column: text.Column, Severity: finding.Error, Rule: finding.RuleTemplate,
		Message: fmt.Sprintf("template of %s: %s", printable.Line(position.Path(text.Keys)), printable.Line(err.Text)),
	}
	bare := bareKey(text.Value, err.Function)
	if slices.Contains(reaching, err.Function) && bare == "" {
		f.Rule = finding.RuleReachesOut
		f.Message = fmt.Sprintf("template function %q is refused: templates of values reach nothing outside of them", err.Function)
	}
	if h.target < 0 && slices.ContainsFunc(v.spec.Targets, func(t fleet.BundleTarget) bool { return t.Helm != nil && t.Helm.DisablePreProcess }) {
		f.Severity = finding.Warning
	}
	if bare != "" {
		f.Message = fmt.Sprintf("template of %s: %s is a key here, and without quotes it counts as a function", printable.Line(position.Path(text.Keys)), printable.Line(err.Function))
		f.Hint = "write " + printable.Line(position.ShortName(bare))
	} else if f.Rule == finding.RuleTemplate && err.Function != "" {
		f.Hint = "helm.disablePreProcess: true leaves ${ } as text"
		if near := spelling.Nearest(err.Function, values.Functions()); near != "" {
			f.Hint = fmt.Sprintf("did you mean %q?", near)
		} else if values.IsFact(err.Function) {
			f.Hint = values.HintFact(err.Function)
		}
	}
	v.addFinding(f)
}

// bareKey is how to write the key of a mapping that a template takes for a function, as
// in get .ClusterLabels env; empty where the function is no key.
func bareKey(template, function string) string {
	if function == "" {
		return ""
	}
	m := regexp.MustCompile(`\b((?:get|index|hasKey)\s+\.Cluster\w+)\s+` + regexp.QuoteMeta(function) + `\b`).FindStringSubmatch(template)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s %q", m[1], function)
}

// templateBytes is how large a template of a chart may be that is parsed here.
const templateBytes = 4 << 20

// templateChecks checks the templates of charts, and templates that no chart has.
type templateChecks struct{ *checks }

// templates refuses templates of the bundle's own charts that Helm could not
// parse, and those of a bundle of plain manifests. Whether their functions exist is
// not looked at here.
func (t templateChecks) templates(plain bool) {
	dirs := t.templateDirs()
	if plain {
		dirs = []string{"templates/"}
	}
	for _, dir := range dirs {
		for _, f := range t.a.files {
			rest, ok := strings.CutPrefix(f.name, dir)
			if !ok || plain && !isManifest(f.name) {
				continue
			}
			if data, err := f.bytes(templateBytes); err == nil {
				t.template(f.name, rest, string(data))
				t.hooksOfTemplate(f.name, data)
			}
		}
	}
}

// templateDirs are the directories whose files Helm takes for templates.
func (t templateChecks) templateDirs() []string {
	var dirs []string
	add := func(chart string) {
		if dir := path.Join(path.Clean(chart), "templates") + "/"; !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	named := false
	for _, h := range t.a.helms() {
		if o := h.options; o.Chart != "" || o.Repo != "" {
			named = named || h.target < 0
			if dir := strings.TrimPrefix(o.Chart, "/"); o.Repo == "" && dir != "" && t.isFile(path.Join(dir, chartFile)) {
				add(dir)
			}
		}
	}
	if !named && t.isFile(chartFile) {
		add(".")
	}
	return dirs
}

var templateError = regexp.MustCompile(`(?s)^template: [^:]*:(\d+):(?:\d+:)? (.*?)(?: started at \S+:(\d+))?$`)

func (t templateChecks) template(name, title, text string) {
	tree := gotemplate.New(path.Base(title))
	tree.Mode = gotemplate.SkipFuncCheck
	_, err := tree.Parse(text, "", "", map[string]*gotemplate.Tree{})
	if err == nil {
		return
	}
	line, message := 1, err.Error()
	if m := templateError.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(cmp.Or(m[3], m[1])); err == nil {
			line = n
		}
	}
	if open, ok := unclosed(text); ok && message == "unexpected EOF" {
		line, message = open.line, fmt.Sprintf("this %s has no end: the file ends before it is closed with {{ end }}", open.word)
	}
	t.addError(name, line, finding.RuleTemplate, "template: "+printable.Line(strings.Join(strings.Fields(message), " ")))
}
