package bundle

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// reporterOf is the agent that reports a deployment; false where another manager looks
// after the deployment, or its Cluster is not known.
func (e *Engine) reporterOf(bd *fleet.BundleDeployment) (summary.Reporter, bool) {
	key := kube.KeyOf(bd)
	_, cluster, ok := e.table.PairOf(key)
	if !ok || e.elsewhere(key) {
		return summary.Reporter{}, false
	}
	agent, known := e.table.AgentOf(cluster)
	return summary.Reporter{Protocol: agent.Protocol, Life: agent.Life}, known
}

// redisplay checks the deployments of a cluster whose agent has become another.
func (e *Engine) redisplay(cluster kube.Key) {
	for _, bd := range e.table.DeploymentsOn(cluster) {
		e.displays.Check(bd)
	}
}
