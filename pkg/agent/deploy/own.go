package deploy

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// agentPrefix is how the names of the bundles of agents begin.
const agentPrefix = "fleet-agent-"

// installsAgent reports whether a deployment is that of the agent itself. Its exact
// name counts: a bundle of somebody's whose name only begins like that is like
// any other. Where the manager has not been heard since the agent was started,
// the cluster's name is not known, and the beginning has to do.
func installsAgent(s *snapshot) bool {
	if s.bd != nil && s.bd.Labels[fleet.LabelCluster] != "" {
		return s.name == naming.AgentBundle(s.bd.Labels[fleet.LabelCluster])
	}
	return strings.HasPrefix(s.name, agentPrefix)
}
