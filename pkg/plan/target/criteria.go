package target

import (
	"fmt"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Criteria are one block of criteria as it stands in targets, restrictions, partitions and
// schedules. Criteria that are not set do not restrict; a block without any matches
// nothing.
type Criteria struct {
	Name                 string // of the block, for people
	ClusterName          string
	ClusterSelector      *metav1.LabelSelector
	ClusterGroup         string
	ClusterGroupSelector *metav1.LabelSelector
}

// A block is one block of compiled criteria. A criterion that is not set does not restrict;
// a block without criteria matches nothing.
type block struct {
	kind        string // "target", "customization" or "restriction"
	index       int    // in the list it came from
	number      int    // as people count
	name        string
	refuses     bool // doNotDeploy
	clusterName string
	clusters    labels.Selector // nil where absent
	group       string
	groups      labels.Selector // nil where absent
	reason      string          // of the clusters that a target matches
}

func compile(c Criteria, kind string, index int) (block, error) {
	b := block{
		kind: kind, index: index, number: index + 1,
		name: c.Name, clusterName: c.ClusterName, group: c.ClusterGroup,
	}
	var err error
	if b.clusters, err = selector(c.ClusterSelector); err != nil {
		return b, invalid(kind, index, c.Name, fmt.Errorf("clusterSelector: %w", err))
	}
	if b.groups, err = selector(c.ClusterGroupSelector); err != nil {
		return b, invalid(kind, index, c.Name, fmt.Errorf("clusterGroupSelector: %w", err))
	}
	return b, nil
}

func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// views is the number of ways to look at a cluster: once through each of its
// groups, or once through none.
func views(c *Cluster) int { return max(1, len(c.Groups)) }

// groupAt is the group of one of these ways; the zero Group is none.
func groupAt(c *Cluster, i int) Group {
	if len(c.Groups) == 0 {
		return Group{}
	}
	return c.Groups[i]
}

// matchesAny reports whether the block matches the cluster through some group.
func (b *block) matchesAny(c *Cluster) bool {
	for i := range views(c) {
		if b.matches(c, groupAt(c, i)) {
			return true
		}
	}
	return false
}

// matches reports whether all criteria hold for the cluster seen through a group.
func (b *block) matches(c *Cluster, g Group) bool {
	if b.isEmpty() {
		return false
	}
	return b.nameMatches(c) &&
		(b.group == "" || b.group == g.Name) &&
		(b.groups == nil || b.groups.Matches(labels.Set(g.Labels))) &&
		(b.clusters == nil || b.clusters.Matches(labels.Set(c.Labels)))
}

func (b *block) nameMatches(c *Cluster) bool {
	return b.clusterName == "" || b.clusterName == c.Name || b.clusterName == c.Labels[fleet.LabelDisplayName]
}

func (b *block) isEmpty() bool {
	return b.clusterName == "" && b.clusters == nil && b.group == "" && b.groups == nil
}

func (b *block) readsGroups() bool { return b.group != "" || b.groups != nil }

// blockTitle names the block as people find it.
func (b *block) blockTitle() string { return targetTitle(b.kind, b.number, b.name) }

func targetTitle(kind string, number int, name string) string {
	if name == "" {
		return fmt.Sprintf("%s %d", kind, number)
	}
	return fmt.Sprintf("%s %d %q", kind, number, name)
}

// describeCriteria describes the criteria of the block.
func (b *block) describeCriteria() string {
	if b.isEmpty() {
		return "nothing: it has no criteria and matches no cluster"
	}
	var parts []string
	if b.clusterName != "" {
		parts = append(parts, "clusterName "+b.clusterName)
	}
	if b.group != "" {
		parts = append(parts, "clusterGroup "+b.group)
	}
	if b.groups != nil {
		parts = append(parts, "clusterGroupSelector "+selectorText(b.groups))
	}
	if b.clusters != nil {
		parts = append(parts, selectorText(b.clusters))
	}
	return strings.Join(parts, " and ")
}

// refusal says what the block wants, and what a cluster has that it does not match.
func (b *block) refusal(c *Cluster) string {
	return "wants " + b.describeCriteria() + ", " + b.describeMismatch(c)
}

func selectorText(s labels.Selector) string {
	if s.Empty() {
		return "every cluster"
	}
	return s.String()
}

// describeMismatch describes the cluster's value for the first criterion of the block that
// it does not fulfil.
func (b *block) describeMismatch(c *Cluster) string {
	switch {
	case b.isEmpty():
		return "so not " + c.Name
	case !b.nameMatches(c):
		if shown := c.Labels[fleet.LabelDisplayName]; shown != "" && shown != c.Name {
			return fmt.Sprintf("this is %s (%s)", c.Name, shown)
		}
		return "this is " + c.Name
	case b.group != "" && !inGroup(c, b.group), b.groups != nil && !b.anyGroup(c):
		return groupText(c)
	case b.clusters != nil && !b.clusters.Matches(labels.Set(c.Labels)):
		return labelText(c, b.clusters)
	}
	return c.Name + " has them only in different cluster groups"
}

func inGroup(c *Cluster, name string) bool {
	for _, g := range c.Groups {
		if g.Name == name {
			return true
		}
	}
	return false
}

func (b *block) anyGroup(c *Cluster) bool {
	for i := range views(c) {
		if b.groups.Matches(labels.Set(groupAt(c, i).Labels)) {
			return true
		}
	}
	return false
}

// matchingGroupNames names the groups through which the block matches the cluster.
func (b *block) matchingGroupNames(c *Cluster) string {
	var names []string
	for i := range views(c) {
		if g := groupAt(c, i); b.matches(c, g) {
			names = append(names, g.Name)
		}
	}
	return "cluster group " + strings.Join(names, ", ")
}

func groupText(c *Cluster) string {
	if len(c.Groups) == 0 {
		return c.Name + " is in no cluster group"
	}
	var names []string
	for _, g := range c.Groups {
		names = append(names, g.Name)
	}
	sort.Strings(names)
	return c.Name + " is in " + strings.Join(names, ", ")
}

// labelText says what the cluster has of the labels that a selector asks for.
func labelText(c *Cluster, s labels.Selector) string {
	requirements, _ := s.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if r.Matches(labels.Set(c.Labels)) {
			continue
		}
		if value, ok := c.Labels[r.Key()]; ok {
			return fmt.Sprintf("%s has %s=%s", c.Name, r.Key(), value)
		}
		return fmt.Sprintf("%s has no label %s", c.Name, r.Key())
	}
	return c.Name + " does not match"
}
