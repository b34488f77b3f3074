package view

import (
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Reflected reports whether the objects that Summarize reads say what a verdict says of
// deployments. The manager writes the status of Bundles, Clusters and GitRepos after the
// agents have reported. What was changed since the verdict is not compared.
func Reflected(goal Goal, v Verdict, f Fleet) bool {
	bundles, clusters := byKey(f.Bundles), byKey(f.Clusters)
	for i := range v.Pairs {
		p := &v.Pairs[i]
		b, c := bundles[p.Bundle], clusters[p.Cluster]
		if !p.reported || b == nil || b.Generation > p.generation {
			continue
		}
		if isBehindSpec(b) || b.Generation < p.generation || contradictsSummary(&b.Status.Summary, p.Cluster.String(), p) {
			return false
		}
		if c != nil && contradictsSummary(&c.Status.Summary, p.Bundle.Name, p) {
			return false
		}
	}
	if op := byKey(f.HelmOps)[goal.Key]; goal.Kind == "HelmOp" && op != nil {
		return v.End != Reached || HelmOpState(op) == fleet.Ready
	}
	repo := byKey(f.Repositories)[goal.Key]
	return goal.Kind != "GitRepo" || repo == nil || !v.Seen || repoShown(repo, v, f)
}

// contradictsSummary reports whether a summary says something else of a pair than its agent. A
// summary names ten deployments at most: where it may leave the pair out, only its
// counters are compared.
func contradictsSummary(s *fleet.BundleSummary, name string, p *Pair) bool {
	if s.DesiredReady == 0 {
		return false // the manager has not written it
	}
	r := entryOf(s, name)
	switch {
	case p.State == fleet.Ready:
		return r != nil || s.Ready == 0
	case r == nil:
		return len(s.NonReadyResources) < fleet.StatusListLimit || countOf(s, p.State) == 0
	}
	return !p.repeats(r)
}

// repoShown reports whether the manager has worked on the status of a GitRepo since it has
// worked on the Bundles: a GitRepo that is read completely is not Ready for a reason of its
// own, or of one of its Bundles.
func repoShown(repo *fleet.GitRepo, v Verdict, f Fleet) bool {
	list := repo.Status.Conditions
	switch _, trouble := RepoTrouble(repo); {
	case repo.Status.Commit != v.Commit:
		return false
	case trouble != nil, condition.IsTrue(list, fleet.ConditionReconciling):
		return true
	case RepoState(repo) == fleet.GitUpdating:
		return false
	case readyProblem(list) == nil:
		return true
	}
	own := slices.DeleteFunc(slices.Clone(f.Bundles), func(b *fleet.Bundle) bool { return repoOf(b) != keyOf(repo) })
	return len(own) == 0 || slices.ContainsFunc(own, func(b *fleet.Bundle) bool { return readyProblem(b.Status.Conditions) != nil })
}
