package helm

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A Place is where in the files of a bundle an error of Render comes from.
type Place struct {
	File   string // relative to the bundle
	Line   int    // from 1; 0 where only the file is known
	Column int    // from 1; 0 where only the line is known
	Text   string // the error without its place
}

// How the errors of Render name places. The chart's name is gone from them
// already, except in errors that others wrap.
var (
	atPlace = regexp.MustCompile(`^([^\s:"']+\.[A-Za-z]+):(\d+)(?::(\d+))?: (.*)$`)
	inFile  = regexp.MustCompile(`^([^\s:"']+\.[A-Za-z]+): (?:line (\d+): )?(.*)$`)
	// wrapped is a template that another one includes. The last is to blame.
	wrapped = regexp.MustCompile(`^.*error calling (?:include|tpl|template): template: [^/:\s]+/([^:\s]+):(\d+):(\d+): (.*)$`)
	// executing is what text/template says before the error itself.
	executing = regexp.MustCompile(`^executing "[^"]*" at <(.*?)>: (.*)$`)
	ofChart   = regexp.MustCompile(`^load chart: (?:cannot load ([^\s:]+): )?(.*)$`)
	ofParser  = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?(?:line (\d+): )?(.*)$`)
	ofVersion = regexp.MustCompile(`^chart requires kubeVersion`)
	ofKustom  = regexp.MustCompile(`^kustomize "([^"]*)": (.*)$`)
	noYAML    = regexp.MustCompile(`(?:MalformedYAMLError: )?yaml: line (\d+): (.*?) in File: (\S+)`)
	fromFile  = regexp.MustCompile(`from '([^']+)'`)
)

// Locate finds the place that an error of Render is about. d is what was
// rendered. ok is false for errors without a place, such as one about values.
func Locate(d Deployment, err error) (place Place, ok bool) {
	if err == nil {
		return Place{}, false
	}
	l := locator{d: d, text: strings.TrimPrefix(plainText(err), "helm: "), yaml: fault.ReasonOf(err) == release.ReasonBadYAML}
	var names []file
	for _, r := range d.Content.Resources {
		names = append(names, file{name: r.Name})
	}
	l.dir, _ = chartDir(names, d.helm())
	if l.dir == "" {
		l.dir = "."
	}
	for _, try := range []func() (Place, bool){l.kustomization, l.included, l.loading, l.requirement, l.placed, l.filed} {
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

// included is an error in a template that another one includes.
func (l locator) included() (Place, bool) {
	m := wrapped.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	return l.template(m[1], m[2], m[3], m[4])
}

// placed is an error with line, and perhaps column.
func (l locator) placed() (Place, bool) {
	m := atPlace.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	if l.yaml {
		return l.rendered(m[1], m[2], m[4])
	}
	return l.template(m[1], m[2], m[3], m[4])
}

// filed is an error that names only a file, or a line of what it renders to.
func (l locator) filed() (Place, bool) {
	m := inFile.FindStringSubmatch(l.text)
	if m == nil {
		return Place{}, false
	}
	return l.rendered(m[1], m[2], m[3])
}

// template is a place in a template; text/template counts columns from 0.
func (l locator) template(name, line, column, text string) (Place, bool) {
	f, ok := l.inTree(name)
	if !ok {
		return Place{}, false
	}
	p := Place{File: f, Line: number(line), Text: text}
	if column != "" {
		p.Column = number(column) + 1
	}
	if m := executing.FindStringSubmatch(text); m != nil {
		p.Text = m[1] + ": " + m[2]
	}
	return p, true
}

// rendered is a line of what a file renders to: that of the file itself only if
// it is no template.
func (l locator) rendered(name, line, text string) (Place, bool) {
	f, ok := l.inTree(name)
	if !ok {
		return Place{}, false
	}
	if l.isTemplate(f) {
		if line != "" {
			text = fmt.Sprintf("line %s of what it renders to: %s", line, text)
		}
		return Place{File: f, Text: text}, true
	}
	return Place{File: f, Line: number(line), Text: text}, true
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
		p.Line, p.Text = number(m[1]), m[2]
	}
	return p, true
}

// requirement is a chart that wants another version of Kubernetes.
func (l locator) requirement() (Place, bool) {
	f, ok := l.inTree(chartFile)
	if !ok || !ofVersion.MatchString(l.text) {
		return Place{}, false
	}
	line, column := l.find(f, "kubeVersion")
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
		if f, ok := l.below(dir, in[3]); ok {
			return Place{File: f, Line: number(in[1]), Text: in[2]}, true
		}
	}
	f, ok := l.below(dir, kustomizeFile)
	if !ok {
		return Place{}, false
	}
	p := Place{File: f, Text: text}
	// What failed is named innermost, relative to the kustomization that names
	// it: of one that is a base only the base is known here.
	for _, from := range fromFile.FindAllStringSubmatch(text, -1) {
		if line, column := l.find(f, from[1]); line > 0 {
			p.Line, p.Column = line, column
		}
	}
	return p, true
}

func (l locator) below(dir, name string) (string, bool) {
	want := path.Join(dir, name)
	for _, r := range l.d.Content.Resources {
		if r.Name == want || r.Name == strings.TrimPrefix(name, "/") {
			return r.Name, true
		}
	}
	return "", false
}

// find is where a word first stands in a file.
func (l locator) find(name, word string) (line, column int) {
	for _, r := range l.d.Content.Resources {
		if r.Name != name {
			continue
		}
		data, err := content.ResourceBytes(r)
		if err != nil {
			return 0, 0
		}
		n := 0
		for text := range bytes.Lines(data) {
			n++
			if at := bytes.Index(text, []byte(word)); at >= 0 {
				return n, at + 1
			}
		}
	}
	return 0, 0
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
