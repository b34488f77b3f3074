package fleetstate

import (
	"slices"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Candidate returns a cluster as input of targeting; false if it does not exist.
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

// BumpMoves changes the number that Moves returns. The caller calls it after a change
// outside of the table: of a BundleNamespaceMapping, or of a policy of a namespace.
func (t clusterTable) BumpMoves() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
}
