package bundle

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// kustomizations are the names of a kustomization's file.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func newChecks(a *assembly) *checks {
	k := &checks{
		a: a, byName: map[string]file{}, dirs: map[string]bool{".": true}, done: map[string]bool{}, objects: map[identity]documentPosition{},
	}
	for _, f := range a.files {
		k.byName[f.name] = f
		for dir := path.Dir(f.name); !k.dirs[dir]; dir = path.Dir(dir) {
			k.dirs[dir] = true
		}
	}
	return k
}

// checkFiles looks for files that every agent would fail on: manifests that are
// no YAML, and kustomizations that lead out of the bundle.
func (a *assembly) checkFiles() {
	k := newChecks(a)
	k.chartSyntax()
	k.schemas()
	k.warnUnreadFiles()
	k.misnamed()
	kustomizeChecks{k}.overlays()
	dirs := kustomizeChecks{k}.kustomizeDirs()
	for _, d := range dirs {
		kustomizeChecks{k}.kustomization(d, 0)
	}
	kustomizeChecks{k}.unnamed(dirs)
	customized := slices.ContainsFunc(dirs, func(d kustomizeDir) bool { return d.dir != "." || k.hasFile(".", kustomizations) })
	plain := !customized && !k.isChart()
	templateChecks{k}.chartlessDirs()
	if !k.isChart() {
		k.idleValues()
	}
	if !customized {
		k.warnBesideTemplates()
	}
	templateChecks{k}.templates(plain)
	if plain {
		templateChecks{k}.templatesAlone()
		manifestChecks{k}.manifests()
	}
}

// chartSyntax checks the syntax of the files of charts that are no templates.
func (c *checks) chartSyntax() {
	for _, f := range c.a.files {
		if path.Base(f.name) == chartFile {
			c.syntax(f.name)
			c.syntax(path.Join(path.Dir(f.name), valuesFile))
		}
	}
}

// onlySyntax checks the syntax of files that are YAML whatever the options of the bundle say.
func (c *checks) onlySyntax() {
	c.chartSyntax()
	if c.hasFile(".", kustomizations) {
		kustomizeChecks{c}.kustomization(kustomizeDir{dir: "."}, 0)
		return
	}
	for _, f := range c.a.files {
		if c.isPlain(f.name) && !c.isFile(chartFile) {
			c.documents(f.name, hintChart, func([]byte, documentPosition) {})
		}
	}
}

// isPlain reports whether a file is a manifest that a bundle of plain manifests deploys as it
// stands.
func (c *checks) isPlain(name string) bool {
	return isManifest(name) && !strings.HasPrefix(name, "templates/") && !strings.HasPrefix(name, "overlays/") && !c.nested(path.Dir(name)) &&
		!slices.Contains(fleetyaml.Names, name)
}

type checks struct {
	a      *assembly
	byName map[string]file
	dirs   map[string]bool // with files in them or below
	done   map[string]bool
	// objects are those of plain manifests, and where each stands first.
	objects map[identity]documentPosition
	// kinds counts the documents of plain manifests that have a kind, and kindless those
	// that have none; noKind is where the first of these stands.
	kinds, kindless int
	noKind          documentPosition
	// blank is where the first document of plain manifests stands that is empty.
	blank documentPosition
	// unclear reports that a document is none of these: it has options of a bundle, or is too
	// large to be looked at.
	unclear bool
}

func (c *checks) isFile(name string) bool {
	_, ok := c.byName[name]
	return ok
}

func (c *checks) hasFile(dir string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return c.isFile(path.Join(dir, n)) })
}

// isChart reports whether the bundle is deployed as a chart of its own.
func (c *checks) isChart() bool {
	for _, h := range c.a.helms() {
		if _, none := c.chartless(h); !none && (h.options.Chart != "" || h.options.Repo != "") {
			return true
		}
	}
	return c.hasFile(".", []string{chartFile})
}

// manifestChecks checks plain manifests, document by document.
type manifestChecks struct{ *checks }

// manifests checks the files of a bundle of plain manifests. Left out are
// charts and bundles further down, and templates, which are no YAML yet.
func (m manifestChecks) manifests() {
	for _, f := range m.a.files {
		switch {
		case m.unused(f.name):
		case !isManifest(f.name):
			m.misspeltEnding(f)
		case m.kustomizationMeant(f) != "", m.chartFileMeant(f, m.chartDirs()) != "":
		case !m.isPlain(f.name), f.name == valuesFile && m.dirs[templatesDir]:
		default:
			before, kinds := len(m.a.found), m.kinds
			m.documents(f.name, hintChart, m.manifest)
			if len(m.a.found) == before {
				m.unrendered(f)
				m.booleanKeys(f)
			}
			if m.kinds > kinds {
				m.notAlone(m.a.found[before:])
			}
		}
	}
	m.nothingHasAKind()
}

// unused warns of a chart or kustomization further down that no fleet.yaml makes a bundle:
// a bundle of plain manifests renders neither. It reports whether the file is one.
func (m manifestChecks) unused(name string) bool {
	dir, what, hint := path.Dir(name), "", ""
	switch base := path.Base(name); {
	case dir == "." || m.hasFile(dir, fleetyaml.Names) || dir != "." && m.nested(path.Dir(dir)):
		return false
	case base == chartFile:
		what, hint = "chart", "helm.chart: "+dir
	case slices.Contains(kustomizations, base):
		what, hint = "kustomization", "kustomize.dir: "+dir
	default:
		return false
	}
	m.a.addFinding(finding.Finding{
		Path: path.Join(m.a.dir.Path, name), Severity: finding.Warning, Rule: finding.RuleNotRead,
		Message: fmt.Sprintf("the %s in %s is not used: it belongs to the bundle of the directory above, which does not name it", what, dir),
		Hint:    fmt.Sprintf("put a fleet.yaml into %s, name it in paths of the GitRepo, or set %s", path.Join(m.a.dir.Path, dir), hint),
	})
	return true
}

func isManifest(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml" || ext == ".json"
}

// nested reports whether a directory belongs to a chart or bundle further down.
func (c *checks) nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if c.hasFile(dir, append([]string{chartFile}, fleetyaml.Names...)) {
			return true
		}
	}
	return false
}

// warnUnreadFiles warns of files that look like the fleet.yaml of their directory and are not
// read as one.
func (c *checks) warnUnreadFiles() {
	if c.a.dir.Options != "" {
		return // the GitRepo names the file that is read
	}
	for _, f := range c.a.files {
		w := finding.Finding{Path: path.Join(c.a.dir.Path, f.name), Severity: finding.Warning, Rule: finding.RuleNotRead}
		switch base := path.Base(f.name); {
		case c.nested(path.Dir(f.name)): // it has a fleet.yaml, or is a chart
			continue
		case isMiscasedFleetYAML(f.name):
			w.Message, w.Hint = base+" is not read as "+fleetyaml.Names[0]+": the name differs in case", "rename it to "+fleetyaml.Names[0]
		case f.name == fleetyaml.Names[1] && path.Base(c.a.file.Path) != f.name:
			w.Message, w.Hint = base+" is not read: "+fleetyaml.Names[0]+" is there, too", "keep one of the two"
		case c.optionsMeant(f):
			w.Message, w.Hint = base+" looks like a misspelt "+fleetyaml.Names[0]+": it is not read", "rename it to "+fleetyaml.Names[0]
		default:
			continue
		}
		c.a.addFinding(w)
	}
}

// isMiscasedFleetYAML reports whether the name of a file is that of a fleet.yaml in another
// case.
func isMiscasedFleetYAML(name string) bool {
	base := path.Base(name)
	return slices.Contains(fleetyaml.Names, strings.ToLower(base)) && !slices.Contains(fleetyaml.Names, base)
}

// misspeltOptions reports whether the name of a file is nearly that of a fleet.yaml.
func misspeltOptions(name string) bool {
	base := path.Base(name)
	for _, more := range []string{".txt", ".yaml", ".yml"} {
		if cut, ok := strings.CutSuffix(base, more); ok && slices.Contains(fleetyaml.Names, cut) {
			return true
		}
	}
	return base == "fleet.json" || spelling.SingleTypo(base, fleetyaml.Names) != ""
}

// optionsMeant reports whether a file is probably meant to be the fleet.yaml of its directory,
// which has none.
func (c *checks) optionsMeant(f file) bool {
	if !misspeltOptions(f.name) || c.hasFile(path.Dir(f.name), fleetyaml.Names) || path.Dir(f.name) == "." && c.a.file.Decoded() {
		return false
	}
	data, err := f.bytes(fleetyaml.MaxBytes)
	if err != nil || isTooLargeToParse(data) {
		return false
	}
	if why, _ := aliasBombReason(data); why != "" {
		return false
	}
	json, err := sigyaml.YAMLToJSON(data)
	return err == nil && hasOption(json)
}

func (c *checks) addError(name string, line int, rule, message string) {
	c.a.addFinding(finding.Finding{Path: path.Join(c.a.dir.Path, name), Line: line, Severity: finding.Error, Rule: rule, Message: message})
}

// syntax checks every document of a file with the parser that agents use.
func (c *checks) syntax(name string) { c.documents(name, "", func([]byte, documentPosition) {}) }

// documents checks the syntax of a file and visits its documents as JSON, as far
// as it is right. templates is the hint where templates stand in the file.
func (c *checks) documents(name, templates string, visit func(data []byte, at documentPosition)) {
	f, ok := c.byName[name]
	if !ok || c.done[name] {
		return
	}
	c.done[name] = true
	data, err := f.bytes(c.a.o.Limits.FileBytes)
	if err != nil {
		c.addError(name, 0, finding.RuleFile, "cannot be read: "+causeOf(err).Error())
		return
	}
	for _, doc := range position.Documents(data) {
		if why, line := aliasBombReason(doc.Text); why != "" {
			c.addError(name, doc.Before+max(line, 1), finding.RuleTooLarge, why)
			return
		}
		if isTooLargeToParse(doc.Text) {
			c.unclear = true
			continue
		}
		data, err := sigyaml.YAMLToJSON(doc.Text)
		if err != nil {
			c.a.addFinding(fleetyaml.SyntaxFinding(path.Join(c.a.dir.Path, name), doc, err, templates))
			return
		}
		if line := position.Conflict(doc.Text); line > 0 && data[0] != '{' {
			c.addError(name, doc.Before+line, finding.RuleYAML, "YAML: "+position.ConflictText)
			return
		}
		if f, over := fleetyaml.LeftOver(path.Join(c.a.dir.Path, name), doc); over {
			c.a.addFinding(f)
			return
		}
		visit(data, documentPosition{file: name, line: doc.Before + firstLine(doc.Text), doc: doc})
	}
}
