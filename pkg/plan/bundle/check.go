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
// no YAML, and charts that lack a dependency.
func (a *assembly) checkFiles() {
	k := &checks{a: a, byName: map[string][]byte{}, done: map[string]bool{}}
	for _, f := range a.files {
		k.byName[f.name] = f.data
	}
	for _, f := range a.files {
		if path.Base(f.name) == "Chart.yaml" {
			k.chart(f.name)
		}
	}
	dirs := a.kustomizeDirs()
	for _, dir := range dirs {
		k.kustomization(dir, 0)
	}
	if len(dirs) == 1 && !k.has(".", kustomizations) && !k.isChart() { // no target says kustomize.dir
		k.manifests()
	}
}

// kustomizeDirs are the directories in which a kustomization may be: that of
// the bundle first, then those of targets.
func (a *assembly) kustomizeDirs() []string {
	dirs := []string{"."}
	if k := a.spec.Kustomize; k != nil && k.Dir != "" {
		dirs = append(dirs, path.Clean(k.Dir))
	}
	for i := range a.spec.Targets {
		if k := a.spec.Targets[i].Kustomize; k != nil && k.Dir != "" {
			dirs = append(dirs, path.Clean(k.Dir))
		}
	}
	return dirs
}

type checks struct {
	a      *assembly
	byName map[string][]byte
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
		if h.options.Chart != "" {
			return true
		}
	}
	return k.has(".", []string{"Chart.yaml"})
}

// manifests checks the files of a bundle of plain manifests. Left out are
// charts and bundles further down, and templates, which are no YAML yet.
func (k *checks) manifests() {
	for _, f := range k.a.files {
		switch ext := path.Ext(f.name); {
		case ext != ".yaml" && ext != ".yml" && ext != ".json":
		case strings.HasPrefix(f.name, "templates/"), k.nested(path.Dir(f.name)):
		default:
			k.syntax(f.name)
		}
	}
}

// nested tells whether a directory belongs to a chart or bundle further down.
func (k *checks) nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if k.has(dir, append([]string{"Chart.yaml"}, fleetyaml.Names...)) {
			return true
		}
	}
	return false
}

// syntax checks every document of a file with the parser that agents use.
func (k *checks) syntax(name string) {
	if k.done[name] {
		return
	}
	k.done[name] = true
	for _, doc := range documents(k.byName[name]) {
		if _, err := sigyaml.YAMLToJSON(doc.text); err != nil {
			line, text := fleetyaml.SyntaxError(err)
			k.a.add(finding.Finding{
				Path: path.Join(k.a.dir.Path, name), Line: doc.before + max(line, 1),
				Severity: finding.Error, Rule: finding.RuleYAML, Message: "YAML: " + text,
			})
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
	current := document{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if bytes.HasPrefix(line, []byte("---")) && len(bytes.TrimSpace(line[3:])) == 0 {
			list = append(list, current)
			current = document{before: number}
			continue
		}
		current.text = append(current.text, line...)
	}
	return append(list, current)
}

// kustomization checks a kustomization and the manifests and kustomizations
// that it builds on. Files that it only takes data from may be anything.
func (k *checks) kustomization(dir string, depth int) {
	for _, base := range kustomizations {
		name := path.Join(dir, base)
		if !k.is(name) || k.done[name] || depth > 20 {
			continue
		}
		k.syntax(name)
		var spec struct {
			Resources             []string `json:"resources"`
			Bases                 []string `json:"bases"`
			Components            []string `json:"components"`
			PatchesStrategicMerge []string `json:"patchesStrategicMerge"`
			Patches               []struct {
				Path string `json:"path"`
			} `json:"patches"`
		}
		if sigyaml.Unmarshal(k.byName[name], &spec) != nil {
			continue // kustomize says it better than we can
		}
		for _, p := range spec.Patches {
			spec.PatchesStrategicMerge = append(spec.PatchesStrategicMerge, p.Path)
		}
		for _, ref := range slices.Concat(spec.Resources, spec.Bases, spec.Components, spec.PatchesStrategicMerge) {
			target := path.Join(dir, ref)
			if k.is(target) {
				k.syntax(target)
			} else {
				k.kustomization(target, depth+1)
			}
		}
	}
}

// chart checks the plain files of a chart, and that its dependencies are there:
// the reference would download them.
func (k *checks) chart(name string) {
	dir := path.Dir(name)
	for _, n := range []string{name, path.Join(dir, "values.yaml")} {
		if k.is(n) {
			k.syntax(n)
		}
	}
	var spec struct {
		Dependencies []struct {
			Name string `json:"name"`
		} `json:"dependencies"`
	}
	if h := k.a.spec.Helm; h != nil && h.DisableDependencyUpdate || sigyaml.Unmarshal(k.byName[name], &spec) != nil {
		return
	}
	for _, d := range spec.Dependencies {
		if !k.vendored(path.Join(dir, "charts"), d.Name) {
			k.a.add(finding.Finding{
				Path: path.Join(k.a.dir.Path, name), Severity: finding.Error, Rule: finding.RuleNotImplemented,
				Message: "dependency " + d.Name + " is not in charts/, and downloading charts is not implemented yet",
				Hint:    "run helm dependency update and commit charts/, or set helm.disableDependencyUpdate",
			})
		}
	}
}

func (k *checks) vendored(charts, name string) bool {
	if k.is(path.Join(charts, name, "Chart.yaml")) {
		return true
	}
	for file := range k.byName {
		if strings.HasPrefix(file, path.Join(charts, name)+"-") && path.Dir(file) == charts && path.Ext(file) == ".tgz" {
			return true
		}
	}
	return false
}
