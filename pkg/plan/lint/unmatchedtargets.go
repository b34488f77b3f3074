package lint

import (
	"fmt"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// UnmatchedTargets warns of customizations and overrideTargets that match none of the clusters. It
// leaves out what has a finding of its own: no criteria, a name that does not exist, and a
// customization behind one that takes its clusters. It also leaves out cluster groups where
// known has none.
func UnmatchedTargets(file *fleetyaml.File, clusters []*target.Cluster, known Known) []finding.Finding {
	c := &check{file: *file}
	for i := range file.Spec.Targets {
		place, _ := file.Target(i)
		if c.coveringTarget(i) >= 0 {
			continue
		}
		c.warnUnmatched(&file.Spec.Targets[i], "customization "+c.targetTitle(i), clusters, known, place...)
	}
	for i, t := range file.OverrideTargets {
		title := fmt.Sprintf("overrideTargets[%d]", i)
		if t.Name != "" {
			title = fmt.Sprintf("target %q of overrideTargets", t.Name)
		}
		entry := bundle.TargetOf(t)
		c.warnUnmatched(&entry, title, clusters, known, "overrideTargets", i)
	}
	finding.Sort(c.found)
	return c.found
}

func (c *check) warnUnmatched(t *fleet.BundleTarget, title string, clusters []*target.Cluster, known Known, place ...any) {
	criteria := criteriaOf(t)
	asksGroups := t.ClusterGroup != "" || t.ClusterGroupSelector != nil
	switch {
	case len(clusters) == 0, asksNothing(criteria), asksGroups && known.Groups == nil,
		t.ClusterName != "" && !slices.Contains(known.Clusters, t.ClusterName),
		t.ClusterGroup != "" && !slices.Contains(known.Groups, t.ClusterGroup):
		return
	}
	filter, err := target.NewFilter(criteria, "target", 0)
	if err != nil || slices.ContainsFunc(clusters, filter.Selects) {
		return
	}
	c.addWarning(finding.RuleUnreachable, fmt.Sprintf("%s matches none of the clusters in %s", title, known.Where),
		"it "+filter.Refusal(clusters[0]), place...)
}
