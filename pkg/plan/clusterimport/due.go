package clusterimport

import (
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Need says when a Cluster is to be imported.
type Need int

// Needs.
const (
	// None: its agent has what it needs.
	None Need = iota
	// InTurn: its agent gets new terms, like the agents of many other clusters.
	InTurn
	// Now: this Cluster is waited for.
	Now
	// Recreate: the objects of its agent are to be created again as the Cluster asks for
	// them now. What the agent registers with stays as it is.
	Recreate
)

// Facts describe a Cluster that names a kubeconfig, and its last import.
type Facts struct {
	Cluster   *fleet.Cluster
	Record    *Record // of the last import; nil: none
	Namespace string  // that its agent is to live in
	Offer     *Offer  // what the manager gives it; nil: what it was given still holds
	Arrived   bool    // the agent has registered since
	Token     bool    // the token that it was given exists
	Own       string  // digest of what the Cluster asks of its agent; empty: no program updates that
}

// Due decides whether a Cluster is to be imported, and says why. A change that a user has
// made to this Cluster is carried out at once; new terms wait for the Cluster's turn.
func Due(f Facts) (Need, string) {
	c, r := f.Cluster, f.Record
	switch {
	case r == nil:
		return Now, "no agent was installed yet"
	case c.Status.AgentConfigChanged:
		return Now, "status.agentConfigChanged is set"
	case r.Generation != c.Spec.RedeployAgentGeneration:
		return Now, fmt.Sprintf("redeployAgentGeneration is %d, the agent was installed at %d", c.Spec.RedeployAgentGeneration, r.Generation)
	case r.Namespace != f.Namespace && (r.Namespace != "" || !r.MadeByRancherFleet()):
		return Now, fmt.Sprintf("the agent's namespace is %q, the agent was installed in %q", f.Namespace, r.Namespace)
	case !r.MadeByRancherFleet() && !f.Arrived && !f.Token:
		return Now, "the agent has no valid credential, and its registration token is gone"
	case r.Own != "" && f.Own != "" && r.Own != f.Own:
		return Recreate, "what the Cluster asks of its agent has changed before the agent has deployed it"
	case f.Offer == nil:
		return None, "the agent has what it needs"
	case f.Offer.URL == "":
		return None, "nobody says where the manager is; the agent keeps what it was told"
	case r.FromSecret && !f.Offer.FromSecret:
		return None, "the Secret does not say any more where the manager is; the agent keeps what it was told"
	}
	if change := r.Change(f.Offer.Terms()); change != "" {
		return InTurn, change
	}
	return None, "the agent has what it needs"
}
