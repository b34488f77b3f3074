package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Partitions warns of partitions that contain none of the clusters that get the bundle, and
// of clusters that are in no partition: they never get it. where says, for users, where the
// clusters are from. Partitions does not repeat what reading says of partitions without
// criteria.
func Partitions(file *fleetyaml.File, clusters []*target.Cluster, where string) []finding.Finding {
	s := file.Spec.RolloutStrategy
	if s == nil || len(s.Partitions) == 0 || len(clusters) == 0 {
		return nil
	}
	shape, err := rollout.Resolve(s, clusters)
	if err != nil {
		return nil // reading says it
	}
	c := &check{file: *file}
	in := map[int]bool{}
	for i, p := range shape.Partitions {
		for _, n := range p.Members {
			in[n] = true
		}
		def := &s.Partitions[i]
		if len(p.Members) == 0 && !asksNothing(target.Criteria{
			ClusterName: def.ClusterName, ClusterSelector: def.ClusterSelector,
			ClusterGroup: def.ClusterGroup, ClusterGroupSelector: def.ClusterGroupSelector,
		}) {
			c.addWarning(finding.RuleUnreachable, fmt.Sprintf("%s selects none of the clusters in %s that get the bundle",
				rollout.PartitionTitle(def, i), where), labelsMeant(def.ClusterSelector, clusters), "rolloutStrategy", "partitions", i)
		}
		if n := len(p.Members); n > 0 && i+1 < len(shape.Partitions) && p.Limit >= n && (n == 1 || def.MaxUnavailable != nil) {
			c.addWarning(finding.RuleUnreachable, fmt.Sprintf("%s selects %d of the clusters in %s, and all of them may be unavailable: the partitions after it do not wait for it",
				rollout.PartitionTitle(def, i), n, where), "give it more clusters than its maxUnavailable", "rolloutStrategy", "partitions", i)
		}
	}
	var outside []string
	for n, cluster := range clusters {
		if !in[n] {
			outside = append(outside, cluster.Name)
		}
	}
	if left := len(outside); left > 0 {
		if left > 3 {
			outside = append(outside[:3], fmt.Sprintf("%d more", left-3))
		}
		c.addWarning(finding.RuleUnreachable, "clusters in no partition never get the bundle: "+strings.Join(outside, ", "),
			"add a last partition with clusterSelector: {}", "rolloutStrategy", "partitions")
	}
	return c.found
}

// maxValues is how many values of a label are listed.
const maxValues = 5

// labelsMeant names the part of a selector that matches no cluster, and suggests
// another; empty if each part of it is the label of some cluster.
func labelsMeant(s *metav1.LabelSelector, clusters []*target.Cluster) string {
	values := map[string]map[string]bool{} // by key
	for _, c := range clusters {
		for key, value := range c.Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
		}
	}
	wanted := requirements(s)
	slices.SortFunc(wanted, func(a, b metav1.LabelSelectorRequirement) int { return cmp.Compare(a.Key, b.Key) })
	for _, r := range wanted {
		if r.Operator != metav1.LabelSelectorOpIn && r.Operator != metav1.LabelSelectorOpExists {
			continue
		}
		there := slices.Sorted(maps.Keys(values[r.Key]))
		if len(there) == 0 {
			text := fmt.Sprintf("none of them has the label %s", printable.Line(r.Key))
			return text + didYouMean(r.Key, slices.Collect(maps.Keys(values)))
		}
		if text := valuesMeant(r, there); text != "" {
			return text
		}
	}
	return ""
}

// valuesMeant returns the text for a requirement none of whose values is among those
// of its label; empty if one is.
func valuesMeant(r metav1.LabelSelectorRequirement, there []string) string {
	if r.Operator == metav1.LabelSelectorOpExists || slices.ContainsFunc(r.Values, func(v string) bool { return slices.Contains(there, v) }) {
		return ""
	}
	if len(r.Values) == 1 {
		if near := didYouMean(r.Values[0], there); near != "" {
			return fmt.Sprintf("none of them has %s%s", printable.Line(r.Key+"="+r.Values[0]), near)
		}
	}
	if more := len(there) - maxValues; more > 0 {
		there = append(there[:maxValues], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("they have for %s: %s", printable.Line(r.Key), printable.Line(strings.Join(there, ", ")))
}

// didYouMean ends a sentence about a name with the known one that is near; it is
// empty where none is.
func didYouMean(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", printable.Line(near))
	}
	return ""
}
