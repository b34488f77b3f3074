package explain

import "github.com/fleetworkspace/fleet/pkg/plan/values"

// unrendered warns of clusters for which the manager does not render templates of values,
// since they have no label; nil where there are none.
func unrendered(pairs ...*pair) []string {
	n, first := 0, ""
	for _, p := range pairs {
		if p.keepsTemplates() {
			if n++; n == 1 {
				first = p.at.Key.Name
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
func (p *pair) keepsTemplates() bool {
	return p.kit != nil && p.place != nil && p.verdict.Deploy && p.kit.KeepsTemplates(p.verdict, p.place)
}
