package fleetstate

import "github.com/fleetworkspace/fleet/pkg/kube"

// Wanted reports whether a Bundle of this name is wanted on a cluster, deployed there
// already or not.
func (t *State) Wanted(cluster kube.Key, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.onCluster[cluster] {
		if c.bundle.Name == name && c.want != nil {
			return true
		}
	}
	return false
}
