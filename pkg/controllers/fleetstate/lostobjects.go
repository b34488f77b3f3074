package fleetstate

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Settled reports whether every Bundle has been planned since the start of the manager.
// Before that, the removals of a change are not completely known.
func (t bundleTable) Settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}

// Planned reports whether the current version of a Bundle has been planned.
func (t bundleTable) Planned(key kube.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	return row != nil && row.obj != nil && row.plan != nil && row.plan.Generation == row.obj.Generation
}

// RepoAndBundles returns a GitRepo, nil if it does not exist, and its Bundles in no
// order.
func (t bundleTable) RepoAndBundles(repo kube.Key) (*fleet.GitRepo, []*fleet.Bundle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.repos[repo]
	if r == nil {
		return nil, nil
	}
	var out []*fleet.Bundle
	for key := range r.bundles {
		if row := t.bundles[key]; row != nil && row.obj != nil {
			out = append(out, row.obj)
		}
	}
	return r.obj, out
}

// DeploymentsOf returns how many deployments the Bundles of a namespace have.
func (t deploymentTable) DeploymentsOf(namespace string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spread[namespace]
}

// countDeployment updates the number of deployments after one was created or deleted.
func (cr *core) countDeployment(namespace string, old, now *fleet.BundleDeployment) {
	switch {
	case old == nil && now != nil:
		cr.spread[namespace]++
	case old != nil && now == nil:
		cr.spread[namespace]--
	}
}

// LostObjects returns those of the given objects on a cluster that no remaining
// deployment includes. leaves reports whether the deployments of a Bundle are removed
// too. undecided reports that a deployment of the repository is being deployed to the
// cluster, which may include more of the objects: an agent does not delete an object of
// another release.
func (t deploymentTable) LostObjects(cluster, repo kube.Key, things []withdrawal.DataObject, leaves func(bundle kube.Key) bool) (lost []withdrawal.DataObject, undecided bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claimed := map[withdrawal.DataObject]bool{}
	for c := range t.onCluster[cluster] {
		if c.want == nil || leaves(c.bundle) || c.bd != nil && orderOf(c.bd) != "" {
			continue
		}
		undecided = undecided || t.isPending(c, repo)
		if c.bd != nil {
			for _, thing := range withdrawal.Claims(cluster.String(), c.bd) {
				claimed[thing] = true
			}
		}
	}
	lost = withdrawal.UnclaimedObjects(things, claimed)
	return lost, undecided && len(lost) > 0
}

// isPending reports whether a deployment of a repository is being deployed to a cluster
// that exists.
func (t deploymentTable) isPending(c *placement, repo kube.Key) bool {
	row, cluster := t.bundles[c.bundle], t.clusters[c.cluster]
	if row == nil || repo.Name == "" || row.repo != repo || cluster == nil || cluster.life != summary.Online {
		return false
	}
	if c.bd == nil {
		return c.want.Coming
	}
	return c.bd.Spec.DeploymentID != c.bd.Status.AppliedDeploymentID
}
