package table

import (
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hold counts the contents that a deployment holds: those of its current, its
// staged and its applied version. One that is withdrawn holds nothing.
func (t *Table) hold(was, is *fleet.BundleDeployment, news *News) {
	old, now := heldBy(was), heldBy(is)
	for _, id := range now {
		t.uses[id]++
	}
	for _, id := range old {
		if t.uses[id]--; t.uses[id] == 0 {
			delete(t.uses, id)
			news.Unused = append(news.Unused, id)
		}
	}
}

func heldBy(bd *fleet.BundleDeployment) []string {
	if bd == nil || order(bd) != "" {
		return nil
	}
	var out []string
	for _, id := range []string{bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID} {
		content, _, _ := strings.Cut(id, ":")
		if content != "" && !slices.Contains(out, content) {
			out = append(out, content)
		}
	}
	return out
}

// InUse tells whether a deployment holds a content, or a Bundle is about to
// deploy it.
func (t *Table) InUse(content string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.uses[content] > 0 || len(t.contents[content]) > 0 && t.wanted(content)
}

// wanted tells whether a Bundle that needs the content gets it to any cluster.
func (t *Table) wanted(content string) bool {
	for key := range t.contents[content] {
		if row := t.bundles[key]; row != nil && row.plan != nil && len(row.plan.Order) > 0 {
			return true
		}
	}
	return false
}
