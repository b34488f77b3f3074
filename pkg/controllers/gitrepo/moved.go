package gitrepo

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/source"
)

// unmoved is the Unmoved of an order: which bundles of a set are made of what they
// were made of when the last reading ended. That is known if the Bundles are those
// that it left, and it was complete; and either this process remembers what each
// was made of, or the same commit is read again.
func (w *Worker) unmoved(repo *fleet.GitRepo, commit string, set bundle.Set) func([]*fleet.Bundle) func(string) bool {
	last, m := repo.Status.Reading, w.recall(kube.KeyOf(repo), repo.UID)
	now := map[string]bundle.Inputs{}
	for _, r := range set.Results {
		now[r.Name] = r.Inputs
	}
	return func(own []*fleet.Bundle) func(string) bool {
		shows, known := reading.Shows(repo, own)
		switch {
		case !shows || !known || !last.Complete:
			return nil
		case m.inputs != nil && m.read.Commit == last.Commit && m.read.Generation == last.Generation:
			return func(name string) bool { return now[name].SameSource(m.inputs[name]) }
		case m.inputs == nil && commit == last.Commit:
			return func(string) bool { return true }
		}
		return nil
	}
}

// inputsOf is what the bundles of a reading were made of, nil where it was not
// complete.
func inputsOf(set bundle.Set, read source.Read) map[string]bundle.Inputs {
	if read.Err != nil || read.Message != "" || read.Retry {
		return nil
	}
	out := map[string]bundle.Inputs{}
	for _, r := range set.Results {
		if r.Bundle != nil {
			out[r.Name] = r.Inputs
		}
	}
	return out
}
