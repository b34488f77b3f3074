package helm

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A Place is where in the files of a bundle an error of Render comes from.
type Place struct {
	File   string // relative to the bundle
	Line   int    // from 1; 0 where only the file is known
	Column int    // from 1; 0 where only the line is known
	Text   string // the error without its place
	// Null leads to the value that is missing since the bundle's values set it to null.
	Null []any
}

// How the errors of Render name places. The chart's name is gone from them
// already, except in errors that others wrap.
var (
	atPlace = regexp.MustCompile(`^([^\s:"']+\.[A-Za-z]+):(\d+)(?::(\d+))?: (.*)$`)
	inFile  = regexp.MustCompile(`^([^\s:"']+\.[A-Za-z]+): (?:line (\d+)(?: of what it renders to)?: )?(.*)$`)
	// wrapped is a template that another one includes. The last is to blame.
	wrapped = regexp.MustCompile(`^.*error calling (?:include|tpl|template): template: [^/:\s]+/([^:\s]+):(\d+):(\d+): (.*)$`)
	// executing matches the prefix that text/template puts before an error.
	executing = regexp.MustCompile(`^executing "[^"]*" at <(.*?)>: (.*)$`)
	ofChart   = regexp.MustCompile(`^load chart: (?:cannot load ([^\s:]+): )?(.*)$`)
	ofParser  = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?(?:line (\d+): )?(.*)$`)
	ofVersion = regexp.MustCompile(`^chart requires kubeVersion`)
	ofKustom  = regexp.MustCompile(`^kustomize "([^"]*)": (.*)$`)
	ofInclude = regexp.MustCompile(`no template "([^"]*)" associated with template`)
	defines   = regexp.MustCompile(`\{\{-?\s*define\s+"([^"]*)"`)
	noYAML    = regexp.MustCompile(`(?:MalformedYAMLError: )?yaml: line (\d+): (.*?) in File: (\S+)`)
	fromFile  = regexp.MustCompile(`from '([^']+)'`)
	ofField   = regexp.MustCompile(`unknown field "([^"]+)"`)
	ofChartAt = regexp.MustCompile(`^validation: chart\.metadata\.(\w+)`)
)

// Locate finds the place that an error of Render is about. d is the rendered
// deployment. ok is false for errors without a place, such as one about values.
func Locate(d Deployment, err error) (place Place, ok bool) {
	if err == nil {
		return Place{}, false
	}
	l := newLocator(d)
	l.text, l.yaml = strings.TrimPrefix(plainText(err), "helm: "), reconcile.ReasonOf(err) == release.ReasonBadYAML
	for _, try := range []func() (Place, bool){l.kustomization, l.includeErrorPlace, l.loading, l.requirement, l.lineErrorPlace, l.fileErrorPlace} {
		if place, ok := try(); ok {
			return place, true
		}
	}
	return Place{}, false
}

// A locator reads one error.
type locator struct {
	d    Deployment
	text string
	yaml bool   // what was rendered is no YAML
	dir  string // of the chart
}

// newLocator is a locator without an error.
func newLocator(d Deployment) locator {
	l := locator{d: d}
	var names []file
	for _, r := range d.Content.Resources {
		names = append(names, file{name: r.Name})
	}
	if l.dir, _ = chartDir(names, d.helm()); l.dir == "" {
		l.dir = "."
	}
	return l
}

// inTree is a file of the chart as it is named in the bundle, if it is there.
func (l locator) inTree(name string) (string, bool) {
	for _, candidate := range []string{path.Join(l.dir, name), path.Clean(name)} {
		for _, r := range l.d.Content.Resources {
			if r.Name == candidate {
				return candidate, true
			}
		}
	}
	return "", false
}

// includeErrorPlace is an error in a template that another one includes.
func (l locator) includeErrorPlace() (Place, bool) {
	m := wrapped.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	return l.template(m[1], m[2], m[3], m[4])
}

// lineErrorPlace is an error with line, and perhaps column.
func (l locator) lineErrorPlace() (Place, bool) {
	m := atPlace.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	if l.yaml {
		return l.rendered(m[1], m[2], m[4])
	}
	return l.template(m[1], m[2], m[3], m[4])
}

// fileErrorPlace is an error that names only a file, or a line of what it renders to.
func (l locator) fileErrorPlace() (Place, bool) {
	m := inFile.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	return l.rendered(m[1], m[2], m[3])
}

// template is a place in a template; columns of text/template start at 0.
func (l locator) template(name, line, column, text string) (Place, bool) {
	f, ok := l.inTree(name)
	if !ok {
		return Place{}, false
	}
	p := Place{File: f, Line: parseNumber(line), Text: text}
	if column != "" {
		p.Column = parseNumber(column) + 1
	}
	if m := executing.FindStringSubmatch(text); m != nil {
		if said, ok := l.ofAbsent(f, m[1], m[2]); ok {
			m[2], p.Null = said, l.nullKeys(f, m[1])
		} else if said, ok := l.noTemplate(m[2]); ok {
			m[2] = said
		} else if said, ok := noField(m[1], m[2]); ok {
			m[2] = said
		}
		p.Text = m[1] + ": " + m[2]
	}
	return p, true
}

// noTemplate returns the message for a template that includes an undefined one, if one
// of the chart's own has a similar name.
func (l locator) noTemplate(text string) (said string, ok bool) {
	m := ofInclude.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	var known []string
	for _, r := range l.d.Content.Resources {
		if !l.isTemplate(r.Name) {
			continue
		}
		for _, d := range defines.FindAllSubmatch(l.bytes(r.Name), -1) {
			known = append(known, string(d[1]))
		}
	}
	near := spelling.Nearest(m[1], known)
	return fmt.Sprintf("there is no template %q; did you mean %q?", m[1], near), near != ""
}

// rendered is a line of what a file renders to: that of the file itself only if
// it is no template.
func (l locator) rendered(name, line, text string) (Place, bool) {
	f, ok := l.inTree(name)
	if !ok {
		return Place{}, false
	}
	if l.isTemplate(f) {
		if at := position.Conflict(l.bytes(f)); at > 0 {
			return Place{File: f, Line: at, Text: position.ConflictText}, true
		}
		if line != "" {
			text = fmt.Sprintf("line %s of what it renders to: %s", line, text)
		}
		p := Place{File: f, Text: text}
		if at, column, hint := position.Unindented(l.bytes(f)); at > 0 && line != "" && l.yaml {
			p.Line, p.Column, p.Text = at, column, text+"; probably "+hint
		}
		return p, true
	}
	p := Place{File: f, Line: parseNumber(line), Text: text}
	if line == "" {
		p.Line, p.Column = l.metadata(f, text)
	}
	return p, true
}

func (l locator) isTemplate(name string) bool {
	rest, ok := strings.CutPrefix(path.Join("/", name), path.Join("/", l.dir)+"/")
	if l.dir == "." {
		rest, ok = name, true
	}
	return ok && (strings.HasPrefix(rest, "templates/") || strings.HasPrefix(rest, "charts/"))
}

// loading is an error about the files of a chart themselves.
func (l locator) loading() (Place, bool) {
	m := ofChart.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	name, text := m[1], m[2]
	if name == "" {
		name = chartFile
	}
	f, ok := l.inTree(name)
	if !ok {
		return Place{}, false
	}
	p := Place{File: f, Text: text}
	if m := ofParser.FindStringSubmatch(text); m != nil {
		p.Line, p.Text = parseNumber(m[1]), m[2]
	}
	if said, key, ok := formText(text); ok {
		p.Text = said
		if key != "" {
			p.Line, p.Column = l.findKey(f, key)
		}
	}
	if m := ofChartAt.FindStringSubmatch(text); m != nil {
		p.Line, p.Column = l.findKey(f, m[1])
	}
	return p, true
}

// requirement is a chart that wants another version of Kubernetes.
func (l locator) requirement() (Place, bool) {
	f, ok := l.inTree(chartFile)
	if !ok || !ofVersion.MatchString(l.text) {
		return Place{}, false
	}
	line, column := l.findWord(f, "kubeVersion")
	return Place{File: f, Line: line, Column: column, Text: l.text}, true
}

// kustomization is an error of kustomize: in a file that it reads, or in the
// kustomization, at the name of what is missing.
func (l locator) kustomization() (Place, bool) {
	m := ofKustom.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	dir, text := m[1], m[2]
	if in := noYAML.FindStringSubmatch(text); in != nil {
		if f, ok := l.pathBelow(dir, in[3]); ok {
			return Place{File: f, Line: parseNumber(in[1]), Text: in[2]}, true
		}
	}
	for _, try := range []func(dir, text string) (Place, bool){l.patch, l.incompleteDocument} {
		if p, ok := try(dir, text); ok {
			return p, true
		}
	}
	f, ok := l.pathBelow(dir, kustomizeFile)
	if !ok {
		return Place{}, false
	}
	p := Place{File: f, Text: text}
	if m := ofField.FindStringSubmatch(text); m != nil {
		p.Line, p.Column = l.findKey(f, m[1])
		known := siblingFields(position.Root(l.bytes(f)), reflect.TypeFor[types.Kustomization](), m[1])
		if near := spelling.Nearest(m[1], known); near != "" {
			p.Text += fmt.Sprintf("; did you mean %q?", near)
		}
	}
	p = l.explainKustomize(p, text)
	// The error names the failed file innermost, relative to its kustomization: if that
	// is a base, only the base is known here.
	for _, from := range fromFile.FindAllStringSubmatch(text, -1) {
		if line, column := l.findWord(f, from[1]); line > 0 {
			p.Line, p.Column = line, column
		}
	}
	return p, true
}

func (l locator) pathBelow(dir, name string) (string, bool) {
	want := path.Join(dir, name)
	for _, r := range l.d.Content.Resources {
		if r.Name == want || r.Name == strings.TrimPrefix(name, "/") {
			return r.Name, true
		}
	}
	return "", false
}

// bytes returns the content of a file; nil if it cannot be read.
func (l locator) bytes(name string) []byte {
	for _, r := range l.d.Content.Resources {
		if r.Name != name {
			continue
		}
		if data, err := content.ResourceBytes(r); err == nil {
			return data
		}
	}
	return nil
}

// findWord returns where a word first occurs in a file.
func (l locator) findWord(name, word string) (line, column int) {
	n := 0
	for text := range bytes.Lines(l.bytes(name)) {
		n++
		if at := bytes.Index(text, []byte(word)); at >= 0 {
			return n, at + 1
		}
	}
	return 0, 0
}

// findKey is where a file has a key at its top, else where it has it first.
func (l locator) findKey(name, key string) (line, column int) {
	root := position.Root(l.bytes(name))
	if line, column, ok := position.Find(root, true, key); ok {
		return line, column
	}
	position.Keys(root, func(n *yaml.Node, _ []any) {
		if n.Value == key && line == 0 {
			line, column = n.Line, n.Column
		}
	})
	return line, column
}

func parseNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// siblingFields returns the names of the valid fields next to an unknown key, in a part
// of a kustomization that is decoded to a type; nil where there is no such key.
func siblingFields(n *yaml.Node, t reflect.Type, key string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n == nil:
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		return fieldsOf(n, jsonFields(t), key)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			if found := siblingFields(item, t.Elem(), key); found != nil {
				return found
			}
		}
	}
	return nil
}

// fieldsOf is siblingFields for a mapping with its fields.
func fieldsOf(n *yaml.Node, known map[string]reflect.Type, key string) []string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, ok := fieldNamed(known, n.Content[i].Value)
		if !ok && n.Content[i].Value == key {
			return slices.Sorted(maps.Keys(known))
		}
		if !ok {
			continue
		}
		if found := siblingFields(n.Content[i+1], known[name], key); found != nil {
			return found
		}
	}
	return nil
}

// fieldNamed returns the field that a key means: the decoder ignores case.
func fieldNamed(known map[string]reflect.Type, key string) (name string, ok bool) {
	for name := range known {
		if strings.EqualFold(name, key) {
			return name, true
		}
	}
	return "", false
}

// jsonFields are the types of the fields of a struct by their names in JSON, those of
// embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			maps.Copy(out, jsonFields(inner))
		case name != "":
			out[name] = f.Type
		}
	}
	return out
}
