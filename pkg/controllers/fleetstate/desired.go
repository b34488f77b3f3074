package fleetstate

import "github.com/fleetworkspace/fleet/pkg/kube"

// IsDesired reports whether a Bundle of this name is desired on a cluster, deployed or
// not.
func (t deploymentTable) IsDesired(cluster kube.Key, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.onCluster[cluster] {
		if c.bundle.Name == name && c.want != nil {
			return true
		}
	}
	return false
}
