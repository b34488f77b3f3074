// Package target decides which clusters a Bundle is meant for, with which options, and why
// it is not meant for the others.
//
// The rules are those of Fleet's API: blocks of criteria, restrictions and customizations
// that are identified by their position, and one cluster group at a time. A Matcher is
// compiled once for each version of a Bundle, so that a cluster costs microseconds.
package target

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonInvalidSelector is the reason of a fault of Compile, and of a cluster group that
// CompileGroups names in an error.
const ReasonInvalidSelector = "InvalidSelector"

// A Cluster is what targeting needs to know about one cluster.
type Cluster struct {
	Namespace string // of the Cluster object: the workspace
	Name      string
	Labels    map[string]string
	Groups    []Group // groups of the same workspace that select it, by name
}

// A Group is a cluster group as its members see it.
type Group struct {
	Name   string
	Labels map[string]string // of the ClusterGroup object
}

// A Verdict says whether one cluster gets the Bundle, and why.
type Verdict struct {
	// Deploy reports whether the cluster gets the Bundle.
	Deploy bool
	// Target is the index in spec.targets of the target that decided, -1
	// where no target matches.
	Target int
	// Customizations are the indexes in spec.targets of the customizations
	// that apply, in order.
	Customizations []int
	// Reason says in words why, for status, logs and people.
	Reason string
}

// SameOptions reports whether two verdicts lead to the same options.
func (v Verdict) SameOptions(w Verdict) bool {
	if v.Deploy != w.Deploy || v.Target != w.Target || len(v.Customizations) != len(w.Customizations) {
		return false
	}
	for i := range v.Customizations {
		if v.Customizations[i] != w.Customizations[i] {
			return false
		}
	}
	return true
}

// A Matcher is the targeting of one version of a Bundle. It never changes and
// may be used by several goroutines.
type Matcher struct {
	targets      []block // plain targets
	custom       []block // customizations
	restrictions []block
	all          bool // AllMatches: every customization that matches applies
	withGroups   bool
}

// Compile prepares the targets of a Bundle. With R restrictions the first
// targets, all but the last R, are customizations; without restrictions all
// are targets. A Bundle without any target is meant for the cluster group
// "default".
//
// A selector that cannot be read is a permanent fault: no target of the Bundle
// can then be trusted.
func Compile(spec *fleet.BundleSpec) (*Matcher, error) {
	m := &Matcher{all: spec.TargetCustomizationMode == fleet.TargetCustomizationAllMatches}
	entries := spec.Targets
	if len(entries) == 0 {
		entries = []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}
	}
	split := customizations(spec)
	for i := range entries {
		t := &entries[i]
		b, err := compile(Criteria{
			Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector,
			ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector,
		}, "target", i)
		if err != nil {
			return nil, err
		}
		b.refuses = t.DoNotDeploy
		if i < split {
			b.kind = "customization"
			m.custom = append(m.custom, b)
		} else {
			b.number = i - split + 1
			m.targets = append(m.targets, b)
		}
		m.withGroups = m.withGroups || b.readsGroups()
	}
	for i := range spec.TargetRestrictions {
		r := &spec.TargetRestrictions[i]
		b, err := compile(Criteria{
			Name: r.Name, ClusterName: r.ClusterName, ClusterSelector: r.ClusterSelector,
			ClusterGroup: r.ClusterGroup, ClusterGroupSelector: r.ClusterGroupSelector,
		}, "restriction", i)
		if err != nil {
			return nil, err
		}
		m.restrictions = append(m.restrictions, b)
		m.withGroups = m.withGroups || b.readsGroups()
	}
	for i := range m.targets {
		b := &m.targets[i]
		b.reason = b.blockTitle() + " matches: " + b.describeCriteria()
	}
	return m, nil
}

// customizations is how many of the first targets are customizations.
func customizations(spec *fleet.BundleSpec) int {
	if r := len(spec.TargetRestrictions); r > 0 {
		return max(0, len(spec.Targets)-r)
	}
	return 0
}

// PlainTargets returns the targets of a Bundle that are no customizations: those that decide which
// clusters get it.
func PlainTargets(spec *fleet.BundleSpec) []fleet.BundleTarget {
	return spec.Targets[customizations(spec):]
}

// ReadsGroups reports whether a change of cluster groups can change a verdict.
func (m *Matcher) ReadsGroups() bool { return m.withGroups }

// Match decides for one cluster.
func (m *Matcher) Match(c *Cluster) Verdict {
	v := m.Pick(c)
	if v.Reason == "" {
		v.Reason = m.refusal(c)
	}
	return v
}

// Pick is Match without the reason where no target matches. The reason takes much longer
// than the match, and for most clusters no caller needs it.
func (m *Matcher) Pick(c *Cluster) Verdict {
	hit := m.firstTarget(c)
	if hit == nil {
		return Verdict{Target: -1}
	}
	v := Verdict{Target: hit.index, Deploy: true}
	if hit.refuses {
		v.Deploy, v.Reason = false, fmt.Sprintf("%s says doNotDeploy for %s", hit.blockTitle(), c.Name)
		return v
	}
	for i := range m.custom {
		b := &m.custom[i]
		if !b.matchesAny(c) {
			continue
		}
		v.Customizations = append(v.Customizations, b.index)
		if b.refuses {
			v.Deploy, v.Reason = false, fmt.Sprintf("%s says doNotDeploy for %s", b.blockTitle(), c.Name)
			return v
		}
		if !m.all {
			break
		}
	}
	v.Reason = hit.reason
	return v
}

// firstTarget is the first target that matches the cluster through a group through
// which no restriction keeps it out, or nil.
func (m *Matcher) firstTarget(c *Cluster) *block {
	for i := range m.targets {
		b := &m.targets[i]
		for g := range views(c) {
			group := groupAt(c, g)
			if m.isAllowed(c, group) && b.matches(c, group) {
				return b
			}
		}
	}
	return nil
}

// isAllowed reports whether the restrictions let the cluster in through a group.
func (m *Matcher) isAllowed(c *Cluster, g Group) bool {
	if len(m.restrictions) == 0 {
		return true
	}
	for i := range m.restrictions {
		if m.restrictions[i].matches(c, g) {
			return true
		}
	}
	return false
}

// refusal says why no target matches the cluster: what the first one wants and
// what the cluster has, or which restriction is in the way.
func (m *Matcher) refusal(c *Cluster) string {
	for i := range m.targets {
		if b := &m.targets[i]; b.matchesAny(c) {
			return fmt.Sprintf("%s matches %s, but no restriction of the repository allows it: %s", b.blockTitle(), c.Name, m.restrictionReason(b, c))
		}
	}
	b := &m.targets[0]
	return b.blockTitle() + " " + b.refusal(c)
}

// restrictionReason says how the restrictions keep out a cluster that a target matches:
// none matches, or only through other groups than the target does.
func (m *Matcher) restrictionReason(b *block, c *Cluster) string {
	for i := range m.restrictions {
		if r := &m.restrictions[i]; r.matchesAny(c) {
			return fmt.Sprintf("%s does through %s, the target matches through %s", r.blockTitle(), r.matchingGroupNames(c), b.matchingGroupNames(c))
		}
	}
	r := &m.restrictions[0]
	text := r.blockTitle() + " " + r.refusal(c)
	if n := len(m.restrictions) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Refusal says in one line why a Bundle gets to no cluster. workspace names the
// namespaces whose clusters it may go to, clusters is how many there are, and
// first what Match said of the first.
func Refusal(workspace string, clusters int, first string) string {
	switch clusters {
	case 0:
		return fmt.Sprintf("targets no cluster: there is none in %s", workspace)
	case 1:
		return "targets no cluster: " + first
	}
	return fmt.Sprintf("targets none of %d clusters: %s", clusters, first)
}

// NamesOf returns the names by which targets can select a cluster: its own and the one that
// Rancher shows.
func NamesOf(name string, labels map[string]string) []string {
	if display := labels[fleet.LabelDisplayName]; display != "" && display != name {
		return []string{name, display}
	}
	return []string{name}
}

// invalid is the fault of a selector that cannot be read.
func invalid(what string, index int, name string, err error) error {
	return reconcile.TerminalError(ReasonInvalidSelector, fmt.Errorf("%s: %w", targetTitle(what, index+1, name), err))
}
