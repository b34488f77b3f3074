package explain

import (
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

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
	where := first + ", which has no labels"
	if n > 1 {
		where = fmt.Sprintf("%d clusters without labels, such as %s", n, first)
	}
	return []string{fmt.Sprintf("templates of values are not rendered for %s: the value is the text of the template; with any label on the Cluster they are rendered", where)}
}

// keepsTemplates reports whether templates of values stay as they are for a cluster that
// the Bundle is meant for.
func (p *pair) keepsTemplates() bool {
	if p.kit == nil || p.place == nil || !p.verdict.Deploy || values.Renders(p.place.Labels) {
		return false
	}
	v, err := p.kit.Work(p.verdict, p.place)
	if err != nil {
		return false
	}
	o, err := options.WithValues(v.Options, v.Values)
	return err == nil && values.Templated(o.Helm)
}
