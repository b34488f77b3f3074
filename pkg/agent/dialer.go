package agent

import (
	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/managerclient"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
)

// A dialer makes connections to the manager.
type dialer struct {
	*base
	mode     *connectionMode
	identity *identityCheck
	orphans  *orphans
	own      *ownCluster
	version  string // of Kubernetes in the agent's own cluster
}

// dial returns a connection with a credential. The caller sets in c only what its
// check-ins use and call; the rest is that of the agent.
func (d *dialer) dial(cred register.Credential, c checkin.Config) (*managerclient.Client, error) {
	c.Cluster, c.Next = cred.Cluster, d.mode.checkInTimes(cred.Cluster.String())
	c.Namespace, c.Version, c.Kubernetes, c.Instance = d.cfg.Namespace, d.cfg.Version, d.version, d.identity.instance
	c.Orphans, c.Journal, c.Trouble = d.orphans.report, d.events.journal.packed, d.own.trouble
	c.ClusterUID, c.Claims = d.identity.judge.Own, d.identity.claimsCluster
	return managerclient.New(managerclient.Config{
		REST: d.cfg.Metrics.countRequests(cred.REST, serverManager), Namespace: cred.DeploymentNamespace,
		UserAgent: d.cfg.userAgent(), Proxy: d.cfg.Proxy, Listed: d.mode.polls(), CheckIn: c,
	})
}
