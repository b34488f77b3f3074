package fleetstate

import (
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
)

// countContents updates which deployments hold contents: a deployment holds those of
// its current, its staged and its applied version, and none if it is withdrawn.
func (cr *core) countContents(was, is *fleet.BundleDeployment, changed *Changes) {
	old, now := contentsOf(was), contentsOf(is)
	for _, id := range now {
		cr.uses[id]++
	}
	for _, id := range old {
		if cr.uses[id]--; cr.uses[id] == 0 {
			delete(cr.uses, id)
		}
		if cr.uses[id] == 0 || was.Spec.OCIContents && !slices.Contains(now, id) {
			changed.Unused = append(changed.Unused, id)
		}
	}
}

// contentsOf returns the ids of the contents that a deployment holds.
func contentsOf(bd *fleet.BundleDeployment) []string {
	if bd == nil || orderOf(bd) != "" {
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

// InUse reports whether a content must be kept: a deployment holds it, a Bundle is
// about to deploy it, or a Bundle names it instead of holding resources.
func (t deploymentTable) InUse(content string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.uses[content] > 0 || len(t.named[content]) > 0 || len(t.contents[content]) > 0 && t.isNeeded(content)
}

// isNeeded reports whether a Bundle deploys the content to any cluster.
func (cr *core) isNeeded(content string) bool {
	for key := range cr.contents[content] {
		if row := cr.bundles[key]; row != nil && row.plan != nil && len(row.plan.Order) > 0 {
			return true
		}
	}
	return false
}

// NamedBy returns the id of the content that a cached Bundle names instead of holding
// resources; empty if it holds them, or if agents pull its chart.
func NamedBy(b *fleet.Bundle) string {
	switch {
	case b.Spec.ContentsID != "":
		return b.Spec.ContentsID
	case deployment.PulledByAgents(&b.Spec):
		return ""
	}
	return b.Annotations[fleet.AnnotationContent]
}

// setNamedContent records which content a Bundle names.
func (cr *core) setNamedContent(row *bundleRow, id string, changed *Changes) {
	old := row.named
	if old == id {
		return
	}
	row.named = id
	if old != "" {
		delete(cr.named[old], row.key)
		if len(cr.named[old]) == 0 {
			delete(cr.named, old)
			changed.Unused = append(changed.Unused, old)
		}
	}
	if id != "" {
		if cr.named[id] == nil {
			cr.named[id] = map[kube.Key]bool{}
		}
		cr.named[id][row.key] = true
	}
}

// BundlesWithContent returns the Bundles that name a content, sorted.
func (t bundleTable) BundlesWithContent(content string) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.named[content]), CompareKeys)
}

// Holders returns the namespaces in which a deployment holds a content.
func (t deploymentTable) Holders(content string) map[string]bool {
	return t.namespacesHolding(content, func(at kube.Key, _ *placement) string { return at.Namespace })
}

// Workspaces returns the namespaces of the Bundles of which a deployment holds a
// content, even if the Bundles name another content by now.
func (t deploymentTable) Workspaces(content string) map[string]bool {
	return t.namespacesHolding(content, func(_ kube.Key, c *placement) string { return c.bundle.Namespace })
}

// namespacesHolding returns the set of what of returns for each deployment that holds a
// content.
func (cr *core) namespacesHolding(content string, of func(at kube.Key, c *placement) string) map[string]bool {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	out := map[string]bool{}
	if cr.uses[content] == 0 {
		return out
	}
	for at, c := range cr.deployments {
		if slices.Contains(contentsOf(c.bd), content) {
			out[of(at, c)] = true
		}
	}
	return out
}
