package workspace

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Indexes of the caches.
const (
	byHome       = "home"       // management Clusters: their workspace
	byManagement = "management" // provisioning Clusters: the name of their management Cluster
	byLegacy     = "legacy"     // provisioning Clusters: their name, where that is a legacy one
	byOrigin     = "origin"     // Fleet Clusters: what they were mapped from
	byRancher    = "rancher"    // Fleet Clusters: what Rancher mapped them from
)

// Rancher's lease.
var rancherLease = kube.Key{Namespace: "kube-system", Name: "cattle-controllers"}

// featureFleet is Rancher's switch for all of this.
const featureFleet = "fleet"

// caches are the manager's caches of Rancher's objects and of those mapped from
// them.
type caches struct {
	management   *kube.Cache[*management.Cluster]
	provisioning *kube.Cache[*provisioning.Cluster]
	clusters     *kube.Cache[*fleet.Cluster]
	groups       *kube.Cache[*fleet.ClusterGroup]        // of local clusters
	workspaces   *kube.Cache[*management.FleetWorkspace] // empty where the kind is not there
	settings     *kube.Cache[*management.Setting]
	features     *kube.Cache[*management.Feature]
	leases       *kube.Cache[*coordinationv1.Lease]
	nodes        *kube.Cache[*corev1.Node]
	namespaces   *metaCache
	bundles      *metaCache
}

func newCaches(c *kube.Client) *caches {
	v := &caches{
		management:   kube.NewCache[*management.Cluster](c, kube.Watch{}, nil),
		provisioning: kube.NewCache[*provisioning.Cluster](c, kube.Watch{}, nil),
		clusters:     kube.NewCache(c, kube.Watch{}, stripCluster),
		groups:       kube.NewCache(c, kube.Watch{Fields: "metadata.name=" + plan.LocalGroup("").Name}, func(g *fleet.ClusterGroup) { g.Status = fleet.ClusterGroupStatus{} }),
		workspaces:   kube.NewCache[*management.FleetWorkspace](c, kube.Watch{}, nil),
		settings:     kube.NewCache[*management.Setting](c, kube.Watch{}, nil),
		features:     kube.NewCache[*management.Feature](c, kube.Watch{}, nil),
		leases:       kube.NewCache[*coordinationv1.Lease](c, kube.Watch{Namespace: rancherLease.Namespace, Fields: "metadata.name=" + rancherLease.Name}, nil),
		nodes:        kube.NewCache(c, kube.Watch{}, stripNode),
		namespaces:   kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Namespace"), kube.Watch{}, nil),
		bundles:      kube.NewMetaCache(c, fleet.GroupVersion.WithKind("Bundle"), kube.Watch{}, func(m *meta) { m.Labels, m.Annotations = nil, nil }),
	}
	v.management.Index(byHome, func(m *management.Cluster) []string { return []string{m.Spec.FleetWorkspaceName} })
	v.provisioning.Index(byManagement, func(p *provisioning.Cluster) []string { return []string{p.Status.ClusterName} })
	v.provisioning.Index(byLegacy, func(p *provisioning.Cluster) []string {
		if plan.Legacy(p.Name) {
			return []string{p.Name}
		}
		return nil
	})
	v.clusters.Index(byRancher, func(c *fleet.Cluster) []string { return []string{plan.RancherMapped(c.Annotations)} })
	v.clusters.Index(byOrigin, func(c *fleet.Cluster) []string { return []string{c.Annotations[plan.AnnotationMappedFrom]} })
	return v
}

// runnables returns all caches except that of workspaces, whose kind may not exist.
func (c *caches) runnables() []kube.Runner {
	return []kube.Runner{
		c.management, c.provisioning, c.clusters, c.groups, c.settings, c.features, c.leases, c.nodes, c.namespaces, c.bundles,
	}
}

// setting returns the effective value of one of Rancher's settings; empty if it does
// not exist.
func (c *caches) setting(name string) string {
	s, ok := c.settings.Get(kube.Key{Name: name})
	if !ok {
		return ""
	}
	return s.Effective()
}

// surroundings returns the settings and nodes that the mapping of each cluster
// depends on.
func (c *caches) surroundings() plan.Surroundings {
	list := c.nodes.List("")
	nodes := make([]corev1.Node, 0, len(list))
	for _, n := range list {
		nodes = append(nodes, *n)
	}
	return plan.Surroundings{
		Registry: c.setting(plan.SettingRegistry), Secrets: c.setting(plan.SettingPullSecrets), Affinity: c.setting(plan.SettingAffinity),
		Taints: plan.ControlPlaneTaints(nodes),
	}
}

// stripCluster keeps the spec, and of the status whether the agent was seen.
func stripCluster(c *fleet.Cluster) {
	c.Status = fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: c.Status.Agent.LastSeen}}
}

// stripNode keeps labels and taints.
func stripNode(n *corev1.Node) {
	n.Annotations = nil
	n.Spec, n.Status = corev1.NodeSpec{Taints: n.Spec.Taints}, corev1.NodeStatus{}
}
