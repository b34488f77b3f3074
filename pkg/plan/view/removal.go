package view

import (
	"maps"
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// A Removal is a bundle that is being removed.
type Removal struct {
	Bundle   Key
	Progress Progress // Waiting, or Deferred where only clusters are left that are away
	Clusters []string // that still have it and can be reached
	Away     []string // that still have it and are Offline
}

// removals judges what of a repository is on its way out: bundles, and deployments
// of bundles that are gone. What only waits to be approved is not on its way out.
func (j *judge) removals(repo *fleet.GitRepo, own []*fleet.Bundle) {
	of := map[Key]bool{}
	held := condition.IsTrue(repo.Status.Conditions, fleet.ConditionDeletionHeld)
	for _, b := range own {
		switch c := HeldDeletion(b); {
		case c != nil:
			j.fault("bundle %s: %s", b.Name, c.Message)
			j.v.Held = append(j.v.Held, keyOf(b))
		case !reading.Leaving(repo, b):
		case held && b.DeletionTimestamp == nil:
			j.v.Held = append(j.v.Held, keyOf(b))
		default:
			of[keyOf(b)] = true
		}
	}
	for key, list := range j.leaving {
		if j.bundles[key] == nil && key.Namespace == repo.Namespace && list[0].Labels[fleet.LabelRepoName] == repo.Name {
			of[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(of), compareKeys) {
		j.removal(key)
	}
}

// removal judges one bundle that is being removed.
func (j *judge) removal(key Key) {
	r := Removal{Bundle: key, Progress: Waiting}
	for _, bd := range slices.Concat(j.deployments[key], j.leaving[key]) {
		at := ClusterOf(bd)
		if c := j.clusters[at]; c != nil && ClusterState(c) == fleet.Offline && !j.goal.All {
			r.Away = append(r.Away, at.Name)
		} else {
			r.Clusters = append(r.Clusters, at.Name)
		}
	}
	slices.Sort(r.Clusters)
	slices.Sort(r.Away)
	text := "bundle " + key.Name + " is being removed"
	switch {
	case len(r.Clusters) > 0:
		j.wait("%s from %s", text, List(r.Clusters, named))
	case len(r.Away) > 0:
		r.Progress = Deferred
	default:
		j.wait("%s", text)
	}
	j.v.Removals = append(j.v.Removals, r)
}
