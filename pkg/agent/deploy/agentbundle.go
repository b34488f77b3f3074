package deploy

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// agentPrefix is how the names of the bundles of agents begin.
const agentPrefix = "fleet-agent-"

// isAgentBundle reports whether a deployment installs the agent itself. It compares the
// exact name: a user's bundle may begin with the same prefix. Until the manager has
// answered, the name of the Cluster is unknown, and only the prefix is compared.
func isAgentBundle(s *snapshot) bool {
	if s.bd != nil && s.bd.Labels[fleet.LabelCluster] != "" {
		return s.name == naming.AgentBundle(s.bd.Labels[fleet.LabelCluster])
	}
	return strings.HasPrefix(s.name, agentPrefix)
}
