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

// evaluateRemovals judges what of a repository is on its way out: bundles, and deployments
// of bundles that are gone. What only waits to be approved is not on its way out.
func (e *evaluator) evaluateRemovals(repo *fleet.GitRepo, own []*fleet.Bundle) {
	of := map[Key]bool{}
	held := condition.IsTrue(repo.Status.Conditions, fleet.ConditionDeletionHeld)
	for _, b := range own {
		switch c := HeldDeletion(b); {
		case c != nil:
			e.addFault("bundle %s: %s", b.Name, c.Message)
			e.verdict.Held = append(e.verdict.Held, keyOf(b))
		case !reading.IsLeaving(repo, b):
		case held && b.DeletionTimestamp == nil:
			e.verdict.Held = append(e.verdict.Held, keyOf(b))
		default:
			of[keyOf(b)] = true
		}
	}
	for key, list := range e.leaving {
		if e.bundles[key] == nil && key.Namespace == repo.Namespace && list[0].Labels[fleet.LabelRepoName] == repo.Name {
			of[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(of), compareKeys) {
		e.removal(key)
	}
}

// removal judges one bundle that is being removed.
func (e *evaluator) removal(key Key) {
	r := Removal{Bundle: key, Progress: Waiting}
	for _, bd := range slices.Concat(e.deployments[key], e.leaving[key]) {
		at := ClusterOf(bd)
		if c := e.clusters[at]; c != nil && ClusterState(c) == fleet.Offline && !e.goal.All {
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
		e.addWait("%s from %s", text, List(r.Clusters, named))
	case len(r.Away) > 0:
		r.Progress = Deferred
	default:
		e.addWait("%s", text)
	}
	e.verdict.Removals = append(e.verdict.Removals, r)
}
