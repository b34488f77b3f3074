package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Assemble makes the Bundle of one directory. Helm values stand in its spec;
// options.BundleValuesSecretData takes them out before it is stored.
//
// All that is wrong is found, not just the first. The Bundle shares nothing
// with o.
func Assemble(root fs.FS, dir Dir, o Options) Result {
	a := &assembly{root: root, dir: dir, o: o}
	a.o.Limits = o.Limits.withDefaults()
	result := Result{Dir: dir}
	if a.readOptions() {
		result.Name = a.file.Name
		if result.Name == "" {
			result.Name = naming.BundleName(o.Repo, dir.Path, dir.Options)
		}
	}
	if !finding.HasErrors(a.found) {
		a.resources()
		if len(a.files) > 0 && !finding.HasErrors(a.found) {
			result.Bundle = a.bundle(result.Name)
		}
	}
	finding.Sort(a.found)
	result.Findings = a.found
	if result.Broken() {
		result.Bundle = nil
	}
	return result
}

// assembly is the work on one directory.
type assembly struct {
	root  fs.FS
	dir   Dir
	o     Options
	file  fleetyaml.File
	spec  *fleet.BundleSpec // of file
	files []file
	found []finding.Finding
}

func (a *assembly) add(f finding.Finding) { a.found = append(a.found, f) }

// readOptions reads the directory's fleet.yaml; known tells whether it could be
// read so far that the bundle's name is certain.
func (a *assembly) readOptions() (known bool) {
	names := fleetyaml.Names
	if a.dir.Options != "" {
		names = []string{a.dir.Options}
	}
	for _, name := range names {
		p := path.Join(a.dir.Path, name)
		data, err := fs.ReadFile(a.root, p)
		if errors.Is(err, fs.ErrNotExist) && a.dir.Options == "" {
			continue
		}
		if err != nil {
			a.add(finding.Finding{Path: p, Severity: finding.Error, Rule: finding.RuleFile, Message: "cannot be read: " + cause(err).Error()})
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
	for _, f := range list {
		if f.Rule == rule && f.Severity == finding.Error {
			return true
		}
	}
	return false
}

// resources reads the directory's files and checks what can be checked without
// rendering.
func (a *assembly) resources() {
	a.propagate()
	a.valuesFiles()
	a.charts()
	c := &collector{root: a.root, dir: a.dir.Path, skip: a.skipped(), limits: a.o.Limits}
	c.collect()
	a.files = c.files
	a.found = append(a.found, c.found...)
	if !finding.HasErrors(a.found) {
		a.checkFiles()
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

// propagate gives targets the root's chart where they do not name their own, so
// that a target's version belongs to a chart.
func (a *assembly) propagate() {
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
	b.APIVersion, b.Kind = fleet.GroupVersion.String(), "Bundle"
	b.Name = name
	b.Spec = *a.spec.DeepCopy()
	b.Annotations = maps.Clone(a.file.Annotations)
	if len(a.o.Labels)+len(a.file.Labels) > 0 {
		b.Labels = map[string]string{}
		maps.Copy(b.Labels, a.o.Labels)
		maps.Copy(b.Labels, a.file.Labels)
	}
	a.target(&b.Spec)
	a.force(&b.Spec)
	if !a.encode(b, a.o.Compress) {
		return nil
	}
	stored := a.jsonSize(b)
	if stored >= compressAt && !a.o.Compress {
		if !a.encode(b, true) {
			return nil
		}
		stored = a.jsonSize(b)
	}
	if stored > a.o.Limits.StoredBytes {
		a.add(finding.Finding{
			Path: a.dir.Path, Severity: finding.Error, Rule: finding.RuleTooLarge,
			Message: fmt.Sprintf("the bundle has %d KiB, compressed; %d KiB can be stored", stored>>10, a.o.Limits.StoredBytes>>10),
			Hint:    "leave files out with .fleetignore, or split the directory",
		})
	}
	b.Namespace = a.o.Namespace
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

// force sets what the repository has the last word on.
func (a *assembly) force(s *fleet.BundleSpec) {
	s.ForceSyncGeneration = a.o.SyncGeneration
	if a.o.ServiceAccount != "" {
		s.ServiceAccount = a.o.ServiceAccount
	}
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

// encode sets the resources of the bundle.
func (a *assembly) encode(b *fleet.Bundle, compress bool) bool {
	b.Spec.Resources = nil
	for _, f := range a.files {
		r, err := content.Resource(f.name, f.data, compress)
		if err != nil {
			a.add(finding.Finding{Path: path.Join(a.dir.Path, f.name), Severity: finding.Error, Rule: finding.RuleTooLarge, Message: err.Error()})
			return false
		}
		b.Spec.Resources = append(b.Spec.Resources, r)
	}
	return true
}

func (a *assembly) jsonSize(b *fleet.Bundle) int {
	raw, err := json.Marshal(b)
	if err != nil { // values that have no JSON cannot come from YAML
		a.add(finding.Finding{Path: a.file.Path, Severity: finding.Error, Rule: finding.RuleType, Message: "cannot be stored: " + err.Error()})
	}
	return len(raw)
}

// DefaultTarget is what a repository without targets is deployed to.
var DefaultTarget = fleet.GitTarget{Name: "default", ClusterGroup: fleet.ClusterGroupDefault}

// TargetOf is a target of a repository as a target of its bundles.
func TargetOf(t fleet.GitTarget) fleet.BundleTarget {
	return fleet.BundleTarget{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector.DeepCopy(),
		ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector.DeepCopy(),
	}
}

// RestrictionOf is a target of a repository as the limit of its bundles.
func RestrictionOf(t fleet.GitTarget) fleet.BundleTargetRestriction {
	return fleet.BundleTargetRestriction{
		Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector.DeepCopy(),
		ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector.DeepCopy(),
	}
}
