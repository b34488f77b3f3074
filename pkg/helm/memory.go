package helm

import (
	"strconv"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// readMemory reads the memory of a release: the annotations of its chart. Five of them
// are rancher/fleet's; the others distinguish two managers, or two registrations of one
// cluster.
func readMemory(a map[string]string) release.Record {
	keep, _ := strconv.ParseBool(a[fleet.ReleaseKeepResources])
	return release.Record{
		Owner:         release.Owner{AgentNamespace: a[fleet.ReleaseAgentNamespace], BundleID: a[fleet.ReleaseBundleID]},
		Manager:       a[fleet.ReleaseManager],
		BundleUID:     a[fleet.ReleaseBundleUID],
		DeploymentID:  a[fleet.ReleaseDeploymentID],
		Commit:        a[fleet.ReleaseCommit],
		KeepResources: keep,
	}
}

// annotations writes what a release remembers of its deployment.
func (d Deployment) annotations(agentNamespace string) map[string]string {
	return map[string]string{
		fleet.ReleaseBundleID:       d.Memory.Owner.BundleID,
		fleet.ReleaseCommit:         d.Memory.Commit,
		fleet.ReleaseAgentNamespace: agentNamespace,
		fleet.ReleaseServiceAccount: d.Options.ServiceAccount,
		fleet.ReleaseKeepResources:  strconv.FormatBool(d.Options.KeepResources),
		fleet.ReleaseManager:        d.Memory.Manager,
		fleet.ReleaseBundleUID:      d.Memory.BundleUID,
		fleet.ReleaseDeploymentID:   d.Memory.DeploymentID,
	}
}
