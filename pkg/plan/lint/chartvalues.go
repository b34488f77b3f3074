package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// maxValuesDepth is how deep values are compared.
const maxValuesDepth = 20

// chartOptions compares the Helm options with a chart that stands in the repository.
func (c *check) chartOptions() {
	if c.result.Bundle == nil {
		return
	}
	origins := NewOrigins(c.tree, c.result.Dir.Path, &c.file)
	var given []origin
	charts := []*localChart{c.localChart(nil)}
	compare := func(h *fleet.HelmOptions, place []any) {
		ch := c.localChart(h)
		if h == nil || ch == nil {
			return
		}
		c.idleVersion(ch, h, place)
		list := origins.options(h, place)
		given = append(given, list...)
		for _, in := range list {
			c.givenValues(ch, in, origins.rootOf(in.path))
		}
		if !slices.Contains(charts, ch) {
			charts = append(charts, ch)
		}
	}
	compare(c.file.Spec.Helm, nil)
	elsewhere := c.file.Spec.Helm != nil && len(c.file.Spec.Helm.ValuesFrom) > 0
	for i := range c.file.Spec.Targets {
		place, _ := c.file.Target(i)
		h := c.file.Spec.Targets[i].Helm
		compare(h, place)
		elsewhere = elsewhere || h != nil && len(h.ValuesFrom) > 0
	}
	c.unreadValues(charts, given, origins)
	if elsewhere {
		return // they may have any value
	}
	for _, ch := range charts {
		if ch != nil {
			c.absentValues(ch, func(keys []string) bool {
				return slices.ContainsFunc(given, func(in origin) bool { return hasValue(origins, in, keys) })
			})
		}
	}
}

// givenValues looks through the values that a file gives a chart. root is all of the file.
func (c *check) givenValues(ch *localChart, in origin, root *yaml.Node) {
	if in.path != c.file.Path { // reading fleet.yaml finds them
		c.repeated(in.path, root)
	}
	if at := nodeAt(root, in.above...); at != nil {
		c.misspeltValues(ch, in, at, ch.defaults, nil)
	}
}

// hasValue reports whether values have a value, or one text for all around it.
func hasValue(origins *Origins, in origin, keys []string) bool {
	at := nodeAt(origins.rootOf(in.path), in.above...)
	if in.whole && at != nil {
		return nodeAt(at, keys[0]) != nil
	}
	for _, key := range keys {
		if at == nil {
			return false
		}
		at = nodeAt(at, key)
	}
	return at != nil
}

// nodeAt is the value that keys lead to; nil where there is none.
func nodeAt(n *yaml.Node, keys ...any) *yaml.Node {
	for _, key := range keys {
		n = position.Value(n, key)
	}
	return n
}

// idleVersion warns of a version of a chart that is another one than that of the chart
// in the repository, which is taken as it is.
func (c *check) idleVersion(ch *localChart, h *fleet.HelmOptions, place []any) {
	wanted, err := semver.NewConstraint(h.Version)
	has, hasErr := semver.NewVersion(ch.version)
	if h.Version == "" || err != nil || hasErr != nil || wanted.Check(has) {
		return
	}
	c.addWarning(finding.RuleUnknownKey,
		fmt.Sprintf("helm.version %q is ignored: the chart is the directory %s of the repository, and its version is %s",
			position.ShortName(h.Version), ch.dir, printable.Line(position.ShortName(ch.version))),
		"remove it, or name the Helm repository of the chart in helm.repo", slices.Concat(place, []any{"helm", "version"})...)
}

// misspeltValues warns of keys of given values that no template reads, where the chart
// has a key that is one slip away and that its templates read.
func (c *check) misspeltValues(ch *localChart, in origin, given, defaults *yaml.Node, above []string) {
	if ch.handsOn(above) || len(above) > maxValuesDepth {
		return
	}
	known := keysOf(defaults)
	for _, name := range position.Names(given) {
		key := name.Value
		keys := append(slices.Clone(above), key)
		if len(above) == 0 && slices.Contains(ch.parts, key) {
			continue
		}
		if slices.Contains(known, key) {
			if value := nodeAt(given, key); !in.whole && value != nil {
				c.misspeltValues(ch, in, value, nodeAt(defaults, key), keys)
			}
			continue
		}
		near := spelling.SingleTypo(key, known)
		meant := append(slices.Clone(above), near)
		if near == "" || ch.documents(key) || ch.reads(keys) || !ch.reads(meant) || nodeAt(given, near) != nil {
			continue
		}
		c.found = append(c.found, finding.Finding{
			Path: in.path, Line: name.Line, Column: name.Column, Severity: finding.Warning, Rule: finding.RuleUnusedValues,
			Message: "no template of the chart reads the value " + printable.Line(position.ShortName(strings.Join(keys, "."))),
			Hint:    "did you mean " + printable.Line(position.ShortName(strings.Join(meant, "."))) + "?",
		})
	}
}

// absentValues warns of values that templates name and nothing sets, where the chart has
// one that is one slip away.
func (c *check) absentValues(ch *localChart, given func(keys []string) bool) {
	said := map[string]bool{}
	for _, use := range ch.uses {
		at := ch.defaults
		for _, key := range use.keys[:max(len(use.keys), 1)-1] {
			at = nodeAt(at, key) // where it is missing rendering fails
		}
		known := keysOf(at)
		last := len(use.keys) - 1
		if last < 0 || last == 0 && slices.Contains(ch.parts, use.keys[0]) || slices.Contains(known, use.keys[last]) {
			continue
		}
		near := spelling.SingleTypo(use.keys[last], known)
		meant := append(slices.Clone(use.keys[:last]), near)
		if near == "" || ch.documents(use.keys[last]) || given(use.keys) || !ch.mistaken(use.keys, meant) {
			continue
		}
		if f := absentValueFinding(use, meant); !said[f.String()] {
			said[f.String()] = true
			c.found = append(c.found, f)
		}
	}
}

// mistaken reports whether a value that templates name can only be the other one that is
// meant: no template reads that, or none may do without the value.
func (ch *localChart) mistaken(keys, meant []string) bool {
	return !ch.reads(meant) && !ch.handsOn(meant) || ch.requiresValue(keys) && !plural(keys[len(keys)-1], meant[len(keys)-1])
}

// requiresValue reports whether no template may do without a value.
func (ch *localChart) requiresValue(keys []string) bool {
	return !slices.ContainsFunc(ch.uses, func(u valueUse) bool {
		return u.optional && len(u.keys) >= len(keys) && slices.Equal(u.keys[:len(keys)], keys)
	})
}

// absentValueFinding returns the finding for a value that a template names and nothing
// sets.
func absentValueFinding(use valueUse, meant []string) finding.Finding {
	before := use.text[:min(int(use.pos), len(use.text))]
	line := strings.Count(before, "\n")
	text := strings.Split(use.text, "\n")[line]
	return finding.Finding{
		Path: path.Clean(use.file), Line: line + 1, Column: strings.Index(text, ".Values."+strings.Join(use.keys, ".")) + 1,
		Severity: finding.Warning, Rule: finding.RuleUnmatched,
		Message: "there is no value " + printable.Line(position.ShortName(strings.Join(use.keys, "."))) + " in the chart or in fleet.yaml",
		Hint:    "did you mean .Values." + printable.Line(position.ShortName(strings.Join(meant, "."))) + "?",
	}
}

// plural reports whether one of two names is the plural of the other.
func plural(a, b string) bool { return a+"s" == b || b+"s" == a }

// keysOf are the keys of a mapping; nil for anything else.
func keysOf(n *yaml.Node) []string {
	var keys []string
	for _, name := range position.Names(n) {
		keys = append(keys, name.Value)
	}
	return keys
}
