package deploy

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// agentPrefix is how the names of the bundles of agents begin.
const agentPrefix = "fleet-agent-"

// installsAgent reports whether a deployment is that of the agent itself. The exact
// name is compared: a user's bundle whose name only begins like that is like any other.
// If the manager has not answered since the agent was started, the cluster's name is
// not known, and only the prefix is compared.
func installsAgent(s *snapshot) bool {
	if s.bd != nil && s.bd.Labels[fleet.LabelCluster] != "" {
		return s.name == naming.AgentBundle(s.bd.Labels[fleet.LabelCluster])
	}
	return strings.HasPrefix(s.name, agentPrefix)
}
