package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// ComparePatches warns of entries of diff.comparePatches that are for none of the objects
// of a bundle, which must be all that it may have on any cluster. Namespaces are not
// compared: a cluster may choose them.
func ComparePatches(file *fleetyaml.File, objects []map[string]any) []finding.Finding {
	c := &check{file: *file}
	compare := func(d *fleet.DiffOptions, place []any) {
		if d == nil {
			return
		}
		for i, p := range d.ComparePatches {
			c.comparePatch(p, objects, append(slices.Clone(place), "diff", "comparePatches", i))
		}
	}
	compare(file.Spec.Diff, nil)
	for i := range file.Spec.Targets {
		place, _ := file.Target(i)
		compare(file.Spec.Targets[i].Diff, place)
	}
	finding.Sort(c.found)
	return c.found
}

// comparePatch warns of one entry, at the key that is wrong.
func (c *check) comparePatch(p fleet.ComparePatch, objects []map[string]any, place []any) {
	var kinds, names, versions []string
	for _, o := range objects {
		kind, _ := o["kind"].(string)
		name, _ := mapping(o, "metadata")["name"].(string)
		version, _ := o["apiVersion"].(string)
		kinds = append(kinds, kind)
		if !patternOf(p.Kind, kind) {
			continue
		}
		names = append(names, name)
		if !patternOf(p.Name, name) {
			continue
		}
		if sameGroup(p.APIVersion, version) {
			return
		}
		versions = append(versions, version)
	}
	message := position.Path(place) + " matches no object of the bundle: "
	said := func(text string) string { return printable.Line(position.ShortName(text)) }
	warn := func(text, hint, key string) {
		c.addWarning(finding.RuleUnmatched, message+text, hint, append(slices.Clone(place), key)...)
	}
	switch {
	case len(names) == 0:
		warn(fmt.Sprintf("none has the kind %q", said(p.Kind)), meantOf(p.Kind, kinds), "kind")
	case len(versions) == 0:
		warn(fmt.Sprintf("no %s is called %q", said(p.Kind), said(p.Name)), meantOf(p.Name, names), "name")
	default:
		warn(fmt.Sprintf("%s %s has another apiVersion than %q", said(p.Kind), said(p.Name), said(p.APIVersion)), fmt.Sprintf("it is %q", versions[0]), "apiVersion")
	}
}

// meantOf suggests a known name for one that does not exist.
func meantOf(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "what is not in the bundle is not compared"
}

// patternOf reports whether a pattern of a comparePatch may match a text in any of the ways
// that agents match it.
func patternOf(pattern, text string) bool {
	if pattern == "" || pattern == text {
		return true
	}
	if ok, err := path.Match(pattern, text); err == nil && ok {
		return true
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(text)
}

func sameGroup(pattern, version string) bool {
	wanted, err := kube.ParseGroupVersion(pattern)
	has, hasErr := kube.ParseGroupVersion(version)
	return pattern == "" || err == nil && hasErr == nil && (wanted.Group == has.Group || wanted.Group != "" && patternOf(wanted.Group, has.Group))
}
