package explain

import "github.com/fleetworkspace/fleet/pkg/plan/values"

// unrendered warns of clusters for which the manager does not render templates of values,
// since they have no label; nil where there are none.
func unrendered(pairs ...*bundleOnCluster) []string {
	n, first := 0, ""
	for _, p := range pairs {
		if p.keepsTemplates() {
			if n++; n == 1 {
				first = p.deploymentPlace.Key.Name
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []string{values.Unrendered{Clusters: n, First: first}.String()}
}

// keepsTemplates reports whether templates of values stay as they are for a cluster that
// the Bundle is meant for.
func (b *bundleOnCluster) keepsTemplates() bool {
	return b.compiled != nil && b.place != nil && b.verdict.Deploy && b.compiled.KeepsTemplates(b.verdict, b.place)
}

// lintHints returns the fleet lint command that shows the findings. Its sample clusters
// have labels, so that for a cluster without any it needs the clusters themselves.
func (b *bundleOnCluster) lintHints() []Hint {
	const purpose = "to see it before it is pushed, in a clone"
	if !b.keepsTemplates() {
		return linkState{}.hint(purpose, "fleet lint DIR").hints
	}
	return linkState{}.hint("to have templates of values rendered", "kubectl -n %s label clusters.fleet.cattle.io %s KEY=VALUE", b.deploymentPlace.Key.Namespace, b.deploymentPlace.Key.Name).
		hint(purpose, "fleet get clusters -n %s -o yaml > clusters.yaml && fleet lint --cluster-file clusters.yaml DIR", b.deploymentPlace.Key.Namespace).hints
}
