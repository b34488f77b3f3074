package fleetstate

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Settled reports whether every Bundle has been looked at since the start: before that,
// the removals of a change are not fully known.
func (t bundleTable) Settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}

// Planned reports whether the last look at a Bundle was at the version that is known now.
func (t bundleTable) Planned(key kube.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.bundles[key]
	return row != nil && row.obj != nil && row.plan != nil && row.plan.Generation == row.obj.Generation
}

// Owned returns a GitRepo, nil where there is none, and its Bundles, in no order.
func (t bundleTable) Owned(repo kube.Key) (*fleet.GitRepo, []*fleet.Bundle) {
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

// tally updates the number of deployments when one is created or deleted.
func (t *core) tally(namespace string, old, now *fleet.BundleDeployment) {
	switch {
	case old == nil && now != nil:
		t.spread[namespace]++
	case old != nil && now == nil:
		t.spread[namespace]--
	}
}

// Lost returns those of the precious things on a cluster that no remaining deployment
// claims. leaves reports whether the deployments of a Bundle do not remain. undecided
// reports that a deployment of the repository is on its way to the cluster which may
// claim more: agents spare what another of their releases has.
func (t deploymentTable) Lost(cluster, repo kube.Key, things []withdrawal.Thing, leaves func(bundle kube.Key) bool) (lost []withdrawal.Thing, undecided bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claimed := map[withdrawal.Thing]bool{}
	for c := range t.onCluster[cluster] {
		if c.want == nil || leaves(c.bundle) || c.bd != nil && order(c.bd) != "" {
			continue
		}
		undecided = undecided || t.coming(c, repo)
		if c.bd != nil {
			for _, thing := range withdrawal.Claims(cluster.String(), c.bd) {
				claimed[thing] = true
			}
		}
	}
	lost = withdrawal.Unclaimed(things, claimed)
	return lost, undecided && len(lost) > 0
}

// coming reports whether a deployment of a repository is on its way to a cluster
// that is there.
func (t deploymentTable) coming(c *placement, repo kube.Key) bool {
	row, cluster := t.bundles[c.bundle], t.clusters[c.cluster]
	if row == nil || repo.Name == "" || row.repo != repo || cluster == nil || cluster.life != summary.Online {
		return false
	}
	if c.bd == nil {
		return c.want.Coming
	}
	return c.bd.Spec.DeploymentID != c.bd.Status.AppliedDeploymentID
}
