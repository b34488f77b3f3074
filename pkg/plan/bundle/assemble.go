package bundle

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Assemble makes the Bundle of one directory. Helm values stand in its spec;
// options.BundleValuesSecretData takes them out before it is stored.
//
// Assemble reports all errors, not just the first, but requests only what is valid. The
// Bundle shares nothing with o.
func Assemble(root fs.FS, dir Dir, o Options) Result {
	a := &assembly{
		tree: newTree(root), dir: dir, o: o,
		downloads: downloads{askedBy: map[chart.Request]string{}, missing: map[chart.Request]bool{}, requested: map[chart.Request]bool{}},
	}
	a.o.Limits = o.Limits.withDefaults()
	result := Result{Dir: dir}
	a.runSteps(&result)
	finding.Sort(a.found)
	if a.hasTooManyFindings() {
		a.found = append(a.found, finding.Finding{
			Path: dir.Path, Severity: finding.Warning, Rule: finding.RuleTooLarge, Message: "there may be more findings about this bundle, which are left out",
		})
	}
	result.Findings = slices.CompactFunc(a.found, func(x, y finding.Finding) bool { return x == y })
	if result.Broken() {
		result.Bundle, result.Scans, result.Empty = nil, nil, false
	}
	result.Inputs = a.inputs()
	return result
}

// assembly is the work on one directory.
type assembly struct {
	tree  *tree
	base  string // the directory without symbolic links
	dir   Dir
	o     Options
	file  fleetyaml.File
	spec  *fleet.BundleSpec // of file
	skip  map[string]bool   // names relative to the bundle that are no resources
	files []file
	spent usedLimits
	full  bool // a limit was reached
	store store
	found []finding.Finding
	// ignoring are the lines of .fleetignore that leave out what would be deployed.
	ignoring []ignoring

	downloads
}

// downloads records which charts and files a bundle needs from other servers.
type downloads struct {
	charts    []remote
	askedBy   map[chart.Request]string // what was looked for in Options.Fetched, and what it was
	missing   map[chart.Request]bool
	requested map[chart.Request]bool // all that was asked for, had or not
	blind     bool                   // nothing is taken of what was fetched
	wanted    bool                   // something was asked for
	passing   bool                   // something that cannot be had may be there later
	unhashed  bool                   // something fetched has no digest
}

// usedLimits counts how much of each limit a bundle has used.
type usedLimits struct {
	bytes  int64                             // of files
	dirs   int                               // that were looked into
	opened int64                             // bytes of archives of dependencies, and of what was unpacked of them
	packs  int                               // dependencies that were packaged
	packed int64                             // their bytes
	raw    int64                             // bytes of the files in them
	made   int                               // files that dependencies added
	values struct{ files, bytes, count int } // of values files, as often as they are named
}

// maxFindings is how many findings a bundle has.
const maxFindings = 1000

// addFinding keeps a finding, unless there are too many; the first error always is.
func (a *assembly) addFinding(f finding.Finding) {
	if a.hasTooManyFindings() && (f.Severity != finding.Error || a.hasErrors()) {
		return
	}
	a.found = append(a.found, f)
}

func (a *assembly) hasTooManyFindings() bool { return len(a.found) > maxFindings }

func (a *assembly) hasErrors() bool { return finding.HasErrors(a.found) }

// runSteps goes from what is in the tree, by what options name, to what that needs:
// each step that asks for something only if the ones before brought no error.
func (a *assembly) runSteps(result *Result) {
	if !a.openDirectory() {
		return
	}
	if a.readOptions() {
		result.Name = a.file.Name
		if line, column := a.file.Position("name"); a.file.Name != "" {
			result.NameAt = finding.Finding{Path: a.file.Path, Line: line, Column: column}
		}
		if result.Name == "" {
			result.Name = naming.BundleName(a.o.Repo, a.dir.Path, a.dir.Options)
		}
	}
	if a.dir.Bare && !a.hasErrors() {
		result.Empty = true
		return
	}
	if a.hasErrors() && !a.file.Decoded() {
		a.lookAtSyntax()
		return
	}
	a.readOptionFiles()
	if a.hasErrors() {
		a.lookThrough()
		return
	}
	if !a.runStep(a.local, result) || !a.runStep(a.remote, result) || !a.readFiles() {
		return
	}
	if len(a.files) == 0 {
		result.Empty = true
		if len(a.ignoring) > 0 {
			return // a finding names the .fleetignore
		}
		a.addFinding(finding.Finding{
			Path: a.dir.Path, Severity: finding.Warning, Rule: finding.RuleEmpty, Message: "there is nothing to deploy in this directory",
		})
		return
	}
	result.Bundle = a.bundle(result.Name)
	result.Scans = a.scans(result.Bundle)
}

// openDirectory finds the directory.
func (a *assembly) openDirectory() bool {
	base, err := a.tree.resolve(a.dir.Path)
	if err == nil && !a.tree.isDir(base) {
		err = errors.New("is not a directory")
	}
	if err != nil {
		rule := finding.RuleFile
		if errors.Is(err, errOutside) {
			rule = finding.RuleOutside
		}
		a.addFinding(finding.Finding{Path: a.dir.Path, Severity: finding.Error, Rule: rule, Message: "cannot be read: " + causeOf(err).Error()})
		return false
	}
	a.base = base
	a.tree.coverDirectory(base)
	return true
}

// inputs returns what the result was made of, to compare it with later inputs.
func (a *assembly) inputs() Inputs {
	in := Inputs{seen: a.tree.seen, fetched: a.askedBy, options: optionsDigest(a.o), partial: a.tree.hasher == nil || a.unhashed}
	return in
}

// readOptions reads the directory's fleet.yaml; known reports whether it could be
// read so far that the bundle's name is certain.
func (a *assembly) readOptions() (known bool) {
	names := fleetyaml.Names
	if a.dir.Options != "" {
		names = []string{a.dir.Options}
	}
	for _, name := range names {
		p := path.Join(a.dir.Path, name)
		data, err := a.tree.findFile(path.Join(a.base, name), fleetyaml.MaxBytes)
		if errors.Is(err, fs.ErrNotExist) && a.dir.Options == "" {
			continue
		}
		if err != nil {
			rule := finding.RuleFile
			switch {
			case errors.Is(err, errTooLarge):
				rule = finding.RuleTooLarge
			case errors.Is(err, errOutside):
				rule = finding.RuleOutside
			}
			a.addFinding(finding.Finding{Path: p, Severity: finding.Error, Rule: rule, Message: "cannot be read: " + causeOf(err).Error()})
			return false
		}
		a.file, a.found = fleetyaml.Parse(p, data)
		a.spec = &a.file.Spec
		return !hasRule(a.found, finding.RuleYAML) && !hasRule(a.found, finding.RuleTooLarge)
	}
	a.file = fleetyaml.File{Path: path.Join(a.dir.Path, names[0])}
	a.spec = &a.file.Spec
	return true
}

func hasRule(list []finding.Finding, rule string) bool {
	return slices.ContainsFunc(list, func(f finding.Finding) bool { return f.Rule == rule && f.Severity == finding.Error })
}

// readOptionFiles reads what options name.
func (a *assembly) readOptionFiles() {
	a.checkScans()
	a.checkAccounts()
	a.propagateChart()
	a.skip = a.skipped()
	valuesReader{a}.valuesFiles()
	valuesReader{a}.valuesTemplates()
}

// lookThrough finds what else is wrong with a bundle that is broken already; it
// asks for nothing.
func (a *assembly) lookThrough() {
	a.blind, a.full = true, false
	a.local()
	a.files = nil
}

// lookAtSyntax finds files that are no YAML beside a fleet.yaml that cannot be decoded.
// Nothing else is checked and no dependency is added, because the content of that
// fleet.yaml is unknown.
func (a *assembly) lookAtSyntax() {
	if a.spec == nil {
		return // it cannot be read at all
	}
	a.spec = &fleet.BundleSpec{BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{DisableDependencyUpdate: true}}}
	a.skip = a.skipped()
	c := &collector{a: a, tree: a.tree, base: a.base}
	c.collectDirectory(a.base, "", nil)
	if !a.full {
		newChecks(a).onlySyntax()
	}
	a.files = nil
}

// runStep does one step as if nothing had been fetched, and if that brings no
// error but requests, again with what was fetched. So a result does not depend
// on what happens to be there already: whether anything is asked for, and which
// errors are said, follows from the tree and from what was asked for before.
func (a *assembly) runStep(step func(), result *Result) bool {
	files, found, before := len(a.files), len(a.found), a.spent
	a.blind, a.wanted = true, false
	step()
	a.blind = false
	if a.hasErrors() || !a.wanted {
		return !a.hasErrors()
	}
	a.files, a.found, a.spent, a.full = a.files[:files], a.found[:found], before, false
	step()
	if len(a.missing) > 0 {
		result.Missing = slices.SortedFunc(maps.Keys(a.missing), compareRequests)
		a.found = slices.DeleteFunc(a.found, func(f finding.Finding) bool { return f.Severity == finding.Error })
		return false
	}
	result.Retry = a.passing && a.hasErrors()
	return !a.hasErrors()
}

// local finds the files of the bundle's directory and the charts that fleet.yaml names. It
// checks them as far as that is possible without rendering.
func (a *assembly) local() {
	a.charts, a.ignoring = nil, nil
	chartFinder{a}.findCharts()
	c := &collector{a: a, tree: a.tree, base: a.base}
	c.collectDirectory(a.base, "", nil)
	if !a.full {
		a.checkFiles()
	}
	a.allIgnored()
}

// remote finds the files of charts that were fetched.
func (a *assembly) remote() {
	for _, r := range a.charts {
		c := &collector{a: a, tree: newTree(r.files), base: ".", prefix: r.request.Dir(), chart: &r.place}
		c.tree.hasher = nil // its digest is noted
		c.collectDirectory(".", "", nil)
	}
}

// skipped are the names of files that are options and not resources. A file of
// values is skipped where it stands and, by its last part, in the top
// directory.
func (a *assembly) skipped() map[string]bool {
	skip := map[string]bool{fleetyaml.Names[0]: true}
	if a.dir.Options != "" {
		skip[a.dir.Options] = true
	}
	for _, h := range a.helms() {
		for _, f := range h.options.ValuesFiles {
			skip[f], skip[path.Base(f)] = true, true
		}
	}
	return skip
}

// propagateChart gives targets the root's chart where they do not name their own, so
// that a target's version belongs to a chart.
func (a *assembly) propagateChart() {
	root := a.spec.Helm
	if root == nil {
		return
	}
	for i := range a.spec.Targets {
		h := a.spec.Targets[i].Helm
		if h == nil {
			continue
		}
		for _, field := range []struct{ to, from *string }{{&h.Repo, &root.Repo}, {&h.Chart, &root.Chart}, {&h.Version, &root.Version}} {
			if *field.to == "" {
				*field.to = *field.from
			}
		}
	}
}

// bundle puts options and files together.
func (a *assembly) bundle(name string) *fleet.Bundle {
	b := &fleet.Bundle{}
	b.Name, b.Namespace = name, a.spec.TargetNamespace // as rancher/fleet has it while it measures the Bundle
	b.Spec = *a.spec.DeepCopy()
	b.Annotations = maps.Clone(a.file.Annotations)
	if len(a.o.Labels)+len(a.file.Labels) > 0 {
		b.Labels = map[string]string{}
		maps.Copy(b.Labels, a.o.Labels)
		maps.Copy(b.Labels, a.file.Labels)
	}
	a.target(&b.Spec)
	a.setRepositoryFields(&b.Spec)
	if err := a.addResources(b); err != nil {
		a.addFinding(finding.Finding{Path: a.file.Path, Severity: finding.Error, Rule: finding.RuleType, Message: "cannot be stored: " + err.Error()})
		return nil
	}
	b.APIVersion, b.Kind = fleet.GroupVersion.String(), "Bundle"
	b.Namespace = a.o.Namespace
	if a.o.TargetNamespace != "" { // not before: rancher/fleet measures the Bundle without it
		if b.Labels == nil {
			b.Labels = map[string]string{}
		}
		b.Labels[fleet.LabelAdminNamespace] = "true"
	}
	return b
}

// target appends the targets of the repository, or those that override them.
// The order matters: what stands before the restricted ones only customizes.
func (a *assembly) target(s *fleet.BundleSpec) {
	if a.file.Overrides {
		for _, t := range a.file.OverrideTargets {
			s.Targets = append(s.Targets, TargetOf(t))
			s.TargetRestrictions = append(s.TargetRestrictions, RestrictionOf(t))
		}
	} else {
		for _, t := range a.o.Targets {
			s.Targets = append(s.Targets, *t.DeepCopy())
		}
		for _, r := range a.o.Restrictions {
			s.TargetRestrictions = append(s.TargetRestrictions, *r.DeepCopy())
		}
	}
	if len(s.Targets) == 0 {
		s.Targets = []fleet.BundleTarget{TargetOf(DefaultTarget)}
	}
}

// setRepositoryFields sets what the repository has the last word on.
func (a *assembly) setRepositoryFields(s *fleet.BundleSpec) {
	s.ForceSyncGeneration = a.o.SyncGeneration
	forceAccount(s, a.o.ServiceAccount)
	if a.o.TargetNamespace != "" {
		s.TargetNamespace = a.o.TargetNamespace
		for i := range s.Targets {
			s.Targets[i].TargetNamespace = a.o.TargetNamespace
		}
	}
	s.Paused = s.Paused || a.o.Paused
	s.KeepResources = s.KeepResources || a.o.KeepResources
	s.DeleteNamespace = s.DeleteNamespace || a.o.DeleteNamespace
	if a.o.CorrectDrift != nil && a.o.CorrectDrift.Enabled {
		s.CorrectDrift = a.o.CorrectDrift.DeepCopy()
	}
}

// DefaultTarget is the target of a repository without targets.
var DefaultTarget = fleet.GitTarget{Name: "default", ClusterGroup: fleet.ClusterGroupDefault}

// TargetOf returns a target of a repository as a target of its bundles.
func TargetOf(t fleet.GitTarget) fleet.BundleTarget {
	return fleet.BundleTarget{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector.DeepCopy(),
		ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector.DeepCopy(),
	}
}

// RestrictionOf returns a target of a repository as the limit of its bundles.
func RestrictionOf(t fleet.GitTarget) fleet.BundleTargetRestriction {
	return fleet.BundleTargetRestriction{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector.DeepCopy(),
		ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector.DeepCopy(),
	}
}
