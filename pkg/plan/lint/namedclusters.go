package lint

import (
	"fmt"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// Known are the clusters and cluster groups that there are.
type Known struct {
	// Where is where they were looked for, for people.
	Where string
	// Clusters and Groups are their names; a cluster may have two. Nil: they are
	// not known.
	Clusters, Groups []string
}

// A mention is a place in a fleet.yaml that names a cluster or a cluster group.
type mention struct {
	cluster, group string
	place          []any
}

// mentions are those of the customizations, overrideTargets and partitions of a
// file.
func mentions(file *fleetyaml.File) []mention {
	var list []mention
	for i, t := range file.Spec.Targets {
		place, _ := file.Target(i)
		list = append(list, mention{t.ClusterName, t.ClusterGroup, place})
	}
	for i, t := range file.OverrideTargets {
		list = append(list, mention{t.ClusterName, t.ClusterGroup, []any{"overrideTargets", i}})
	}
	if s := file.Spec.RolloutStrategy; s != nil {
		for i, p := range s.Partitions {
			list = append(list, mention{p.ClusterName, p.ClusterGroup, []any{"rolloutStrategy", "partitions", i}})
		}
	}
	return list
}

// NamedClusters returns the clusters and cluster groups that a fleet.yaml names, each once.
func NamedClusters(file *fleetyaml.File) (clusters, groups []string) {
	for _, m := range mentions(file) {
		clusters, groups = append(clusters, m.cluster), append(groups, m.group)
	}
	return uniqueNames(clusters), uniqueNames(groups)
}

func uniqueNames(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// Unknown warns of names of clusters and cluster groups that do not exist. They
// may come later, so it is no error.
func Unknown(file *fleetyaml.File, known Known) []finding.Finding {
	var list []finding.Finding
	check := func(m mention, key, kind, name string, names []string) {
		if name == "" || names == nil || slices.Contains(names, name) {
			return
		}
		f := finding.Finding{
			Path: file.Path, Severity: finding.Warning, Rule: finding.RuleUnknownCluster,
			Message: fmt.Sprintf("there is no %s %q in %s", kind, name, known.Where),
		}
		f.Line, f.Column = file.Position(append(slices.Clone(m.place), key)...)
		if near := spelling.Nearest(name, names); near != "" {
			f.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		list = append(list, f)
	}
	for _, m := range mentions(file) {
		check(m, "clusterName", "cluster", m.cluster, known.Clusters)
		check(m, "clusterGroup", "cluster group", m.group, known.Groups)
	}
	finding.Sort(list)
	return list
}
