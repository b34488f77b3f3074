package view

import (
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/condition"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxSpaces is how many namespaces a text about clusters lists.
const maxSpaces = 5

// NoClusters says that a namespace has no clusters, and which namespaces have some, by
// name, where any are known.
func NoClusters(namespace string, elsewhere []string) string {
	text := "no clusters in namespace " + namespace
	if len(elsewhere) > 0 {
		text += "; clusters are in " + List(elsewhere, maxSpaces)
	}
	return text
}

// Untargeted reports whether the conditions of a GitRepo or a Bundle say that it matches
// no cluster.
func Untargeted(conditions []fleet.Condition) bool {
	c := condition.Find(conditions, fleet.ConditionReady)
	return c != nil && c.Reason == fleet.ReasonNoTargets
}

// StrayNamespaces returns the namespaces, by name, that have Bundles which match no cluster and have
// no clusters at all.
func (f Fleet) StrayNamespaces() []string {
	var out []string
	for _, b := range f.Bundles {
		has := slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool { return c.Namespace == b.Namespace })
		if !has && Untargeted(b.Status.Conditions) {
			out = append(out, b.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
