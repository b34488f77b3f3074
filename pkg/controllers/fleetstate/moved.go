package fleetstate

import "github.com/fleetworkspace/fleet/pkg/kube"

// Wanted reports whether a Bundle of this name is desired on a cluster, whether or not
// it is deployed there already.
func (t deploymentTable) Wanted(cluster kube.Key, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.onCluster[cluster] {
		if c.bundle.Name == name && c.want != nil {
			return true
		}
	}
	return false
}
