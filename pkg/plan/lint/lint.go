// Package lint finds what is legal in a bundle but probably not meant: parts that never
// apply, templates whose result differs each time, and options that do nothing. It also
// makes up clusters to render bundles for, where the user names none.
package lint

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// Check looks through a bundle as it was read from tree. It does not repeat findings of the
// reading. If the bundle has errors, it checks only its fleet.yaml.
func Check(tree fs.FS, r bundle.Result) []finding.Finding {
	c := &check{tree: tree, result: r, file: Options(tree, r.Dir)}
	c.refuseEmpty()
	c.unreachable()
	c.warnWithoutOptions()
	c.notMerged()
	c.warnUnsupported()
	c.checkValueTemplates()
	c.braces()
	c.templates()
	c.chartOptions()
	finding.Sort(c.found)
	return c.found
}

// Options returns the fleet.yaml of a bundle, or an empty one where it has none that could
// be read.
func Options(tree fs.FS, dir bundle.Dir) fleetyaml.File {
	names := fleetyaml.Names
	if dir.Options != "" {
		names = []string{dir.Options}
	}
	for _, name := range names {
		p := path.Join(dir.Path, name)
		if data, err := readFile(tree, p); err == nil {
			file, _ := fleetyaml.Parse(p, data)
			return file
		}
	}
	return fleetyaml.File{Path: path.Join(dir.Path, names[0])}
}

func readFile(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, fleetyaml.MaxBytes+1))
}

// check is the work on one bundle.
type check struct {
	tree   fs.FS
	result bundle.Result
	file   fleetyaml.File
	found  []finding.Finding
	charts map[string]*localChart // by directory; filled by localChart
}

func (c *check) addWarning(rule, message, hint string, keys ...any) {
	line, column := c.file.Position(keys...)
	c.found = append(c.found, finding.Finding{
		Path: c.file.Path, Line: line, Column: column, Severity: finding.Warning, Rule: rule, Message: message, Hint: hint,
	})
}

// refuseEmpty refuses a directory that says it is a bundle and holds nothing.
func (c *check) refuseEmpty() {
	if !c.result.Empty || c.result.Broken() {
		return
	}
	if f, ok := c.result.IgnoredBy(); ok {
		f.Severity = finding.Error
		c.found = append(c.found, f)
		return
	}
	c.found = append(c.found, finding.Finding{
		Path: c.result.Dir.Path, Severity: finding.Error, Rule: finding.RuleEmpty,
		Message: "nothing to deploy: no YAML, chart or kustomization here",
		Hint:    "a bundle that becomes empty is refused, not pruned; delete the directory instead",
	})
}

// warnUnsupported reports what is accepted and not acted on yet.
func (c *check) warnUnsupported() {
	if c.result.Bundle == nil {
		return
	}
	for _, field := range support.UnsupportedFields(c.result.Bundle) {
		var keys []any
		for key := range strings.SplitSeq(strings.TrimPrefix(field, "targets."), ".") {
			keys = append(keys, key)
		}
		for i := range c.file.Spec.Targets { // the place is in the first that has it
			if place, _ := c.file.Target(i); c.hasFinding(place, keys) {
				keys = slices.Concat(place, keys)
				break
			}
		}
		c.addWarning(finding.RuleNotImplemented, support.Message([]string{field}), "", keys...)
	}
}

func (c *check) hasFinding(place, keys []any) bool {
	found := false
	c.file.Texts(func(fleetyaml.Text) { found = true }, slices.Concat(place, keys)...)
	return found
}

// notMerged reports options that a customization cannot change.
func (c *check) notMerged() {
	for i := range c.file.Spec.Targets {
		place, _ := c.file.Target(i)
		for _, key := range setOf(&c.file.Spec.Targets[i].BundleDeploymentOptions) {
			keys := slices.Clone(place)
			for k := range strings.SplitSeq(key, ".") {
				keys = append(keys, k)
			}
			c.addWarning(finding.RuleNotMerged, key+" of a customization is ignored; only the bundle's own counts", "", keys...)
		}
	}
}

// setOf are the options that are set and do not take part in merging.
func setOf(o *fleet.BundleDeploymentOptions) []string {
	var list []string
	add := func(set bool, name string) {
		if set {
			list = append(list, name)
		}
	}
	add(o.DeleteNamespace, "deleteNamespace")
	add(o.DeleteCRDResources, "deleteCRDResources")
	add(o.CreateNamespace != nil, "createNamespace")
	add(len(o.Conditions) > 0, "ignore")
	if h := o.Helm; h != nil {
		add(h.MaxHistory != 0, "helm.maxHistory")
		add(h.SkipSchemaValidation, "helm.skipSchemaValidation")
		add(h.DisableDependencyUpdate, "helm.disableDependencyUpdate")
	}
	return list
}

// targetTitle names a target as people find it.
func (c *check) targetTitle(i int) string {
	keys, named := c.file.Target(i)
	if named {
		return fmt.Sprintf("%q", c.file.Spec.Targets[i].Name)
	}
	return fmt.Sprintf("%d of %v", keys[1].(int)+1, keys[0])
}
