package bundle

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// unorderedReason returns why the manager must not withdraw deployments of a Bundle
// although its targets do not match any more: no user has changed the targets, but a
// ClusterGroup, a mapping or their kinds are missing. It is empty if a user has changed
// them. It reads from the API server.
func (bg *budgets) unorderedReason(ctx context.Context, b *fleet.Bundle, list []*staleDeployment) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	p := withdrawal.Placement{Missing: bg.lacksGroup(b)}
	var err error
	if p.Namespace, err = bg.client.NamespaceLifetime(ctx, b.Namespace); err != nil {
		return "", err
	}
	if usesGroups(b) {
		if p.Groups, err = bg.client.KindLifetime(ctx, "ClusterGroup"); err != nil {
			return "", err
		}
	}
	var mappings withdrawal.Lifetime
	for _, l := range list {
		p.Mappings = withdrawal.Lifetime{}
		if l.cluster.Namespace != b.Namespace {
			if mappings.Name == "" {
				if mappings, err = bg.client.KindLifetime(ctx, "BundleNamespaceMapping"); err != nil {
					return "", err
				}
			}
			p.Mappings = mappings
		}
		if why := p.MisledText(l.bd.CreationTimestamp.Time); why != "" {
			return why, nil
		}
	}
	return "", nil
}

// usesGroups reports whether a target of a Bundle names or selects ClusterGroups.
func usesGroups(b *fleet.Bundle) bool {
	for i := range b.Spec.Targets {
		if t := &b.Spec.Targets[i]; t.ClusterGroup != "" || t.ClusterGroupSelector != nil {
			return true
		}
	}
	return false
}

// lacksGroup reports whether a target of a Bundle names a ClusterGroup that does not
// exist, or has a selector that matches none.
func (bg *budgets) lacksGroup(b *fleet.Bundle) bool {
	groups := bg.cache.groups.List(b.Namespace)
	for i := range b.Spec.Targets {
		t := &b.Spec.Targets[i]
		if t.ClusterGroup != "" && !anyGroup(groups, func(g *fleet.ClusterGroup) bool { return g.Name == t.ClusterGroup }) {
			return true
		}
		if t.ClusterGroupSelector == nil {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(t.ClusterGroupSelector)
		if err == nil && !anyGroup(groups, func(g *fleet.ClusterGroup) bool { return s.Matches(labels.Set(g.Labels)) }) {
			return true
		}
	}
	return false
}

// anyGroup reports whether f accepts a group that is not being deleted.
func anyGroup(groups []*fleet.ClusterGroup, f func(*fleet.ClusterGroup) bool) bool {
	for _, g := range groups {
		if g.DeletionTimestamp == nil && f(g) {
			return true
		}
	}
	return false
}

// bundleUnorderedReason returns why a missing Bundle is no order to withdraw a
// deployment that was created at made; empty if a user has deleted the Bundle, because
// its namespace and its kind are older than the deployment.
func (bg *budgets) bundleUnorderedReason(ctx context.Context, bundle kube.Key, made time.Time) (string, error) {
	origins, err := bg.originsOf(ctx, bundle.Namespace, nil)
	if err != nil {
		return "", err
	}
	return origins[""].LostText(made), nil
}
