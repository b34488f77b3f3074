package bundle

import (
	"bytes"
	"path"
	"slices"
	"strings"

	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// kustomizations are the names of a kustomization's file.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// checkFiles looks for files that every agent would fail on: manifests that are
// no YAML, and kustomizations that lead out of the bundle.
func (a *assembly) checkFiles() {
	k := &checks{a: a, byName: map[string]file{}, dirs: map[string]bool{".": true}, done: map[string]bool{}}
	for _, f := range a.files {
		k.byName[f.name] = f
		for dir := path.Dir(f.name); !k.dirs[dir]; dir = path.Dir(dir) {
			k.dirs[dir] = true
		}
	}
	for _, f := range a.files {
		if path.Base(f.name) == chartFile {
			k.syntax(f.name)
			k.syntax(path.Join(path.Dir(f.name), "values.yaml"))
		}
	}
	k.overlays()
	dirs := k.kustomizeDirs()
	for _, d := range dirs {
		k.kustomization(d, 0)
	}
	plain := !slices.ContainsFunc(dirs, func(d kustomizeDir) bool { return d.dir != "." || k.has(".", kustomizations) })
	if plain && !k.isChart() {
		k.manifests()
	}
}

type checks struct {
	a      *assembly
	byName map[string]file
	dirs   map[string]bool // with files in them or below
	done   map[string]bool
}

func (k *checks) is(name string) bool {
	_, ok := k.byName[name]
	return ok
}

func (k *checks) has(dir string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return k.is(path.Join(dir, n)) })
}

// isChart tells whether the bundle is deployed as a chart of its own.
func (k *checks) isChart() bool {
	for _, h := range k.a.helms() {
		if h.options.Chart != "" || h.options.Repo != "" {
			return true
		}
	}
	return k.has(".", []string{chartFile})
}

// manifests checks the files of a bundle of plain manifests. Left out are
// charts and bundles further down, and templates, which are no YAML yet.
func (k *checks) manifests() {
	for _, f := range k.a.files {
		switch ext := path.Ext(f.name); {
		case ext != ".yaml" && ext != ".yml" && ext != ".json":
		case strings.HasPrefix(f.name, "templates/"), strings.HasPrefix(f.name, "overlays/"), k.nested(path.Dir(f.name)):
		default:
			k.syntax(f.name)
		}
	}
}

// nested tells whether a directory belongs to a chart or bundle further down.
func (k *checks) nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if k.has(dir, append([]string{chartFile}, fleetyaml.Names...)) {
			return true
		}
	}
	return false
}

func (k *checks) fail(name string, line int, rule, message string) {
	k.a.add(finding.Finding{Path: path.Join(k.a.dir.Path, name), Line: line, Severity: finding.Error, Rule: rule, Message: message})
}

// syntax checks every document of a file with the parser that agents use.
func (k *checks) syntax(name string) {
	f, ok := k.byName[name]
	if !ok || k.done[name] {
		return
	}
	k.done[name] = true
	data, err := f.bytes(k.a.o.Limits.FileBytes)
	if err != nil {
		k.fail(name, 0, finding.RuleFile, "cannot be read: "+cause(err).Error())
		return
	}
	for _, doc := range documents(data) {
		if why, line := bomb(doc.text); why != "" {
			k.fail(name, doc.before+max(line, 1), finding.RuleTooLarge, why)
			return
		}
		if huge(doc.text) {
			continue
		}
		if _, err := sigyaml.YAMLToJSON(doc.text); err != nil {
			line, text := fleetyaml.Syntax(doc.text, err)
			k.fail(name, doc.before+max(line, 1), finding.RuleYAML, "YAML: "+text)
			return
		}
	}
}

// A document is one of several in a file, after a number of lines.
type document struct {
	text   []byte
	before int
}

// documents takes a file apart at lines that are three dashes.
func documents(data []byte) []document {
	var list []document
	start, at, number, before := 0, 0, 0, 0
	for line := range bytes.Lines(data) {
		number++
		at += len(line)
		if bytes.HasPrefix(line, []byte("---")) && len(bytes.TrimSpace(line[3:])) == 0 {
			list = append(list, document{data[start : at-len(line)], before})
			start, before = at, number
		}
	}
	return append(list, document{data[start:], before})
}
