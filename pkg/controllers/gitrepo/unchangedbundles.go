package gitrepo

import (
	"slices"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// unchangedBundles returns the function Unmoved of a publish.Order. It reports which
// bundles of a set have the same inputs as in the previous reading of the repository.
// That is known if the cluster has exactly the Bundles of that reading, and either this
// process remembers the inputs of each, or the same commit is read again and was read
// completely.
func (w *Worker) unchangedBundles(repo *fleet.GitRepo, commit string, set bundle.Set) func([]*fleet.Bundle) func(string) bool {
	last, m := repo.Status.Reading, w.memories.get(kube.KeyOf(repo), repo.UID)
	now := map[string]bundle.Inputs{}
	for _, r := range set.Results {
		now[r.Name] = r.Inputs
	}
	return func(own []*fleet.Bundle) func(string) bool {
		shows, known := reading.Shows(repo, own)
		switch {
		case !shows || !known:
			return nil
		case m.inputs != nil && m.read.Commit == last.Commit && m.read.Generation == last.Generation:
			return func(name string) bool {
				was, whole := m.inputs[name]
				return whole && now[name].SameSource(was)
			}
		case last.Complete && commit == last.Commit: // the memory may predate another manager
			return func(string) bool { return true }
		}
		return nil
	}
}

// inputsOf returns the inputs of the bundles of a commit, without broken bundles and
// without those in refused, which were not written; nil if the reading has failed.
func inputsOf(set bundle.Set, read gitrepo.Read, refused []finding.Finding) map[string]bundle.Inputs {
	if read.Err != nil {
		return nil
	}
	out := map[string]bundle.Inputs{}
	for _, r := range set.Results {
		held := slices.ContainsFunc(refused, func(f finding.Finding) bool { return f.Path == r.Dir.Path || f.Path == r.Name })
		if r.Bundle != nil && !r.Broken() && !r.Retry && !held {
			out[r.Name] = r.Inputs
		}
	}
	return out
}
