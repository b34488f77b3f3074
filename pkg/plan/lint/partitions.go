package lint

import (
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Partitions warns of partitions in which none of the clusters is that get the
// bundle, and of clusters that are in no partition: they never get it. where is
// where the clusters are from, for people. What reading says of partitions without
// criteria is not repeated.
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
			c.warn(finding.RuleUnreachable, fmt.Sprintf("%s selects none of the clusters in %s that get the bundle",
				rollout.PartitionTitle(def, i), where), "", "rolloutStrategy", "partitions", i)
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
		c.warn(finding.RuleUnreachable, "clusters in no partition never get the bundle: "+strings.Join(outside, ", "),
			"add a last partition with clusterSelector: {}", "rolloutStrategy", "partitions")
	}
	return c.found
}
