package workspace

import (
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// workspaceFirst is an error for arguments WORKSPACE and CLUSTER of fleet workspace move,
// which are the wrong way round; nil where they are not known to be so.
func workspaceFirst(o MoveOptions, clusters []view.Key) error {
	for _, c := range clusters {
		if c.Name == o.To {
			return fmt.Errorf("no cluster %q, and %q is a cluster; the cluster comes first: fleet workspace move %s %s", o.Cluster, o.To, o.To, o.Cluster)
		}
	}
	return nil
}
