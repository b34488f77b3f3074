package lint

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// An unreadSearch looks for values in fleet.yaml that no template reads.
type unreadSearch struct {
	c      *check
	charts []*localChart
}

// unreadValues warns of values in fleet.yaml that no template of the bundle's charts reads,
// and that resemble none. It says nothing where a template may read values that it does not
// name, and of values files, which several bundles may share.
func (c *check) unreadValues(charts []*localChart, given []origin, origins *Origins) {
	uncertain := func(ch *localChart) bool { return ch == nil || ch.open || ch.names["Values"] || ch.handsOn(nil) }
	if slices.ContainsFunc(charts, uncertain) || c.hasOtherChart() {
		return
	}
	s := unreadSearch{c: c, charts: charts}
	for _, in := range given {
		if in.path != c.file.Path || in.whole {
			continue
		}
		if at := nodeAt(origins.rootOf(in.path), in.above...); at != nil {
			s.searchValues(at, nil)
		}
	}
}

// hasOtherChart reports whether some cluster gets a chart that is not in the repository, or
// cannot be read.
func (c *check) hasOtherChart() bool {
	for i := range c.file.Spec.Targets {
		if c.localChart(c.file.Spec.Targets[i].Helm) == nil {
			return true
		}
	}
	return false
}

// searchValues goes through the values that stand below keys.
func (s *unreadSearch) searchValues(given *yaml.Node, above []string) {
	if len(above) > maxValuesDepth {
		return
	}
	for _, name := range position.Names(given) {
		keys := append(slices.Clone(above), name.Value)
		value := nodeAt(given, name.Value)
		switch {
		case value == nil || value.Anchor != "" || value.Tag == "!!null" || len(above) == 0 && strings.HasPrefix(name.Value, "x-"):
		case s.anyChart(func(ch *localChart) bool { return ch.mayRead(keys) }):
		case s.anyChart(func(ch *localChart) bool { return ch.reads(keys) }):
			s.searchValues(value, keys)
		case s.anyChart(func(ch *localChart) bool {
			return ch.documents(name.Value) || spelling.SingleTypo(name.Value, keysOf(ch.valueNode(above))) != ""
		}): // another finding is about a slip
		default:
			s.c.found = append(s.c.found, finding.Finding{
				Path: s.c.file.Path, Line: name.Line, Column: name.Column, Severity: finding.Warning, Rule: finding.RuleUnusedValues,
				Message: "no template of the chart reads the value " + printable.Line(position.ShortName(strings.Join(keys, "."))),
			})
		}
	}
}

func (s *unreadSearch) anyChart(is func(*localChart) bool) bool {
	return slices.ContainsFunc(s.charts, is)
}

// mayRead reports whether a template takes a value, or all around it, or has its name in
// another place.
func (ch *localChart) mayRead(keys []string) bool {
	return ch.handsOn(keys) || ch.names[keys[len(keys)-1]] || slices.Contains(ch.parts, keys[0])
}

// valueNode returns the node below keys in the chart's values.yaml.
func (ch *localChart) valueNode(keys []string) *yaml.Node {
	at := ch.defaults
	for _, key := range keys {
		at = nodeAt(at, key)
	}
	return at
}
