package fleetstate

import (
	"slices"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Candidate returns a cluster as Bundles see it; false for one that does not exist.
func (t clusterTable) Candidate(key kube.Key) (*Candidate, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := t.clusters[key]; row != nil {
		return row.candidate(), true
	}
	return nil, false
}

// BundlesNamed returns the Bundles of one name, in any namespace, sorted.
func (t bundleTable) BundlesNamed(name string) []kube.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []kube.Key
	for key, row := range t.bundles {
		if key.Name == name && row.obj != nil {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, CompareKeys)
	return out
}

// Move moves the number that Moves returns, for a change that the table does not
// see: who may go to which namespace, and what may be written there.
func (t clusterTable) Move() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
}
