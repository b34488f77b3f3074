package bundle

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// chartOutput is the file in which agents give a kustomization what a chart
// rendered.
const chartOutput = "fleet-manifests.yaml"

// kustomizationBytes is how large a kustomization may be.
const kustomizationBytes = 1 << 20

// A kustomizeDir is a directory that is built for some cluster.
type kustomizeDir struct {
	dir string
	at  func(keys ...any) (line, column int)
}

// kustomizeChecks checks kustomizations and overlays.
type kustomizeChecks struct{ *checks }

// kustomizeDirs are the directories in which a kustomization may be: that of
// the bundle, and those of targets that have another.
func (k kustomizeChecks) kustomizeDirs() []kustomizeDir {
	a := k.a
	var dirs []kustomizeDir
	add := func(o *fleet.KustomizeOptions, at func(...any) (int, int)) {
		dir := "."
		if o != nil && o.Dir != "" {
			dir = path.Clean(strings.TrimPrefix(o.Dir, "/"))
		}
		if !isWithin(".", dir) || strings.Contains(dir, "://") {
			line, column := at("kustomize", "dir")
			a.addFinding(finding.Finding{
				Path: a.file.Path, Line: line, Column: column, Severity: finding.Error, Rule: finding.RuleOutside,
				Message: fmt.Sprintf("kustomize.dir %q is outside of the bundle's directory", o.Dir), Hint: "move it below, or add a fleet.yaml further up",
			})
			return
		}
		if !slices.ContainsFunc(dirs, func(d kustomizeDir) bool { return d.dir == dir }) {
			k.kustomized(o, dir, at)
			dirs = append(dirs, kustomizeDir{dir, at})
		}
	}
	add(a.spec.Kustomize, a.file.Position)
	for i := range a.spec.Targets {
		if o := a.spec.Targets[i].Kustomize; o != nil && o.Dir != "" {
			add(o, func(keys ...any) (int, int) { return a.file.AtTarget(i, keys...) })
		}
	}
	return dirs
}

// kustomized warns of a kustomize.dir that is not there, or has no kustomization: the
// bundle is deployed without it, as by rancher/fleet. A directory with a finding of
// its own, such as a link that leads out of the repository, has no second one.
func (k kustomizeChecks) kustomized(o *fleet.KustomizeOptions, dir string, at func(...any) (int, int)) {
	if o == nil || o.Dir == "" || dir == "." || k.hasFile(dir, kustomizations) || k.hasFinding(dir) {
		return
	}
	f := finding.Finding{
		Path: k.a.file.Path, Severity: finding.Warning, Rule: finding.RuleFile, Message: fmt.Sprintf("kustomize.dir %q has no kustomization.yaml: the bundle is deployed without it", o.Dir),
	}
	f.Line, f.Column = at("kustomize", "dir")
	if !k.dirs[dir] {
		f.Message = fmt.Sprintf("kustomize.dir %q does not exist: the bundle is deployed without it", o.Dir)
	}
	var there []string
	for other := range k.dirs {
		if k.hasFile(other, kustomizations) {
			there = append(there, other)
		}
	}
	if fleetyaml.HasTemplate(o.Dir) {
		f.Hint = fleetyaml.HintTemplates
	} else if near := spelling.NearestPath(dir, there); near != "" {
		f.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	k.a.addFinding(f)
}

// hasFinding reports whether there is a finding about a file or directory of the bundle.
func (c *checks) hasFinding(name string) bool {
	return slices.ContainsFunc(c.a.found, func(f finding.Finding) bool { return f.Path == path.Join(c.a.dir.Path, name) })
}

// overlays checks that overlays of plain manifests are in overlays/, and that
// there is something in them.
func (k kustomizeChecks) overlays() {
	check := func(o *fleet.YAMLOptions, at func(...any) (int, int)) {
		if o == nil {
			return
		}
		for i, name := range o.Overlays {
			line, column := at("yaml", "overlays", i)
			f := finding.Finding{Path: k.a.file.Path, Line: line, Column: column}
			switch clean := path.Clean(name); {
			case name == "", path.IsAbs(name), clean == ".", !isWithin(".", clean):
				f.Severity, f.Rule = finding.Error, finding.RuleOutside
				f.Message = fmt.Sprintf("overlay %q is no directory in overlays/", name)
			case !k.dirs["overlays/"+clean]:
				f.Severity, f.Rule = finding.Warning, finding.RuleFile
				f.Message = fmt.Sprintf("overlay %q changes nothing: there is no file in overlays/%s", name, clean)
				if fleetyaml.HasTemplate(name) {
					f.Hint = fleetyaml.HintTemplates
				} else if near := spelling.NearestPath(clean, k.overlayDirs()); near != "" {
					f.Hint = fmt.Sprintf("did you mean %q?", near)
				}
			default:
				continue
			}
			k.a.addFinding(f)
		}
	}
	check(k.a.spec.YAML, k.a.file.Position)
	for i := range k.a.spec.Targets {
		check(k.a.spec.Targets[i].YAML, func(keys ...any) (int, int) { return k.a.file.AtTarget(i, keys...) })
	}
}

// overlayDirs are the overlays that there are.
func (k kustomizeChecks) overlayDirs() []string {
	var names []string
	for dir := range k.dirs {
		if name, ok := strings.CutPrefix(dir, "overlays/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// kustomization checks a kustomization and the manifests and kustomizations
// that it builds on. Files that it only takes data from may be anything.
func (k kustomizeChecks) kustomization(d kustomizeDir, depth int) {
	for _, base := range kustomizations {
		name := path.Join(d.dir, base)
		f, ok := k.byName[name]
		if !ok || k.done[name] {
			continue
		}
		if depth > 50 {
			k.addError(name, 0, finding.RuleTooLarge, "kustomizations are nested too deep")
			return
		}
		before := len(k.a.found)
		k.syntax(name)
		data, err := f.bytes(kustomizationBytes)
		if err != nil {
			k.addError(name, 0, finding.RuleTooLarge, "cannot be read: "+causeOf(err).Error())
		}
		var doc yaml.Node
		if len(k.a.found) > before || yaml.Unmarshal(data, &doc) != nil {
			continue
		}
		for _, ref := range references(&doc) {
			k.reference(name, ref, depth)
		}
	}
}

// A reference is a path in a kustomization.
type reference struct {
	text   string
	line   int
	usedAs referenceUse
}

// A referenceUse is what kustomize does with what a path leads to.
type referenceUse int

const (
	parse referenceUse = iota // reads it as YAML
	build                     // the same, or builds the kustomization that is there
	data                      // takes it as it is
)

// references are the paths that a kustomization names.
func references(doc *yaml.Node) []reference {
	var list []reference
	add := func(n *yaml.Node, as referenceUse) {
		if n == nil || n.Kind != yaml.ScalarNode || n.Value == "" || strings.Contains(n.Value, "\n") {
			return
		}
		text := n.Value
		if _, file, named := strings.Cut(text, "="); named && as == data {
			text = file // name=path
		}
		list = append(list, reference{text, n.Line, as})
	}
	field := func(in *yaml.Node, key string, as referenceUse) {
		for _, n := range anyCase(in, key) {
			add(n, as)
		}
	}
	for _, key := range []string{"resources", "bases", "components", "generators", "transformers", "validators"} {
		eachElement(doc, key, func(n *yaml.Node) { add(n, build) })
	}
	eachElement(doc, "patchesStrategicMerge", func(n *yaml.Node) { add(n, parse) })
	for _, key := range []string{"patches", "patchesJson6902", "replacements"} {
		eachElement(doc, key, func(n *yaml.Node) { field(n, "path", parse) })
	}
	for _, key := range []string{"crds", "configurations"} {
		eachElement(doc, key, func(n *yaml.Node) { add(n, data) })
	}
	for _, key := range []string{"configMapGenerator", "secretGenerator"} {
		eachElement(doc, key, func(n *yaml.Node) {
			eachElement(n, "files", func(n *yaml.Node) { add(n, data) })
			eachElement(n, "envs", func(n *yaml.Node) { add(n, data) })
			field(n, "env", data)
		})
	}
	for _, n := range anyCase(doc, "openapi") {
		add(child(n, "path"), data)
	}
	return list
}

// eachElement visits the elements of a list.
func eachElement(in *yaml.Node, key string, visit func(*yaml.Node)) {
	for _, n := range anyCase(in, key) {
		if n.Kind != yaml.SequenceNode {
			continue
		}
		for _, e := range n.Content {
			visit(e)
		}
	}
}

// anyCase are the values of a key in all its spellings: kustomize does not mind
// the case of keys.
func anyCase(n *yaml.Node, key string) []*yaml.Node {
	var out []*yaml.Node
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, key) {
			out = append(out, n.Content[i+1])
		}
	}
	return out
}

// reference checks one path of a kustomization.
func (k kustomizeChecks) reference(name string, ref reference, depth int) {
	target := path.Join(path.Dir(name), ref.text)
	switch {
	case remoteSource(ref.text):
		k.a.addFinding(finding.Finding{
			Path: path.Join(k.a.dir.Path, name), Line: ref.line, Severity: finding.Warning, Rule: finding.RuleOutside,
			Message: fmt.Sprintf("%q is not in the bundle, and clusters download nothing", chart.Redact(ref.text)), Hint: "put it into the repository",
		})
	case path.IsAbs(ref.text) || !isWithin(".", target):
		k.addError(name, ref.line, finding.RuleOutside, fmt.Sprintf("%q is outside of the bundle's directory", ref.text))
	case k.isFile(target):
		if ref.usedAs != data {
			k.syntax(target)
		}
	case ref.usedAs == build && k.dirs[target]:
		k.kustomization(kustomizeDir{dir: target}, depth+1)
	case path.Base(ref.text) != chartOutput:
		f := finding.Finding{
			Path: path.Join(k.a.dir.Path, name), Line: ref.line, Severity: finding.Error, Rule: finding.RuleFile,
			Message: fmt.Sprintf("%q is not in the bundle", ref.text),
		}
		if near := k.intendedName(target, ref.usedAs); near != "" {
			f.Hint = fmt.Sprintf("did you mean %q?", path.Join(path.Dir(ref.text), near))
		}
		k.a.addFinding(f)
	}
}

// intendedName is the name of what stands in the same directory and was probably meant by a
// path that leads to nothing, or empty.
func (k kustomizeChecks) intendedName(target string, as referenceUse) string {
	if k.a.hasTooManyFindings() || len(path.Base(target)) > nameLimit {
		return ""
	}
	var names []string
	for _, f := range k.a.files {
		if base := path.Base(f.name); path.Dir(f.name) == path.Dir(target) && !slices.Contains(kustomizations, base) {
			names = append(names, base)
		}
	}
	for dir := range k.dirs {
		if as == build && dir != "." && path.Dir(dir) == path.Dir(target) {
			names = append(names, path.Base(dir))
		}
	}
	if len(names) > nearAmong {
		return ""
	}
	return spelling.Nearest(path.Base(target), names)
}

// elsewhere matches the URLs that kustomize clones or downloads instead of
// taking them for paths.
var elsewhere = regexp.MustCompile(`(?i)^(git::|[a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:]|gh:)`)

// remoteSource reports whether kustomize would download a resource: a URL, or
// what git takes for one.
func remoteSource(s string) bool { return elsewhere.MatchString(s) }
