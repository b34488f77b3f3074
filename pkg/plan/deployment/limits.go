package deployment

import (
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Refusal returns why the limits of its namespace refuse a Bundle on all clusters: a
// reconcile.Terminal with a policy.Violation; nil if they do not. Then no version of the
// Bundle can be worked out.
func Refusal(b *fleet.Bundle, limits policy.Namespaces) error {
	if isAgents(b) {
		return nil
	}
	return limits[b.Namespace].BundleError(&b.Spec)
}

// RefusalOn returns why limits refuse the Bundle on a cluster that it is meant for, with the
// options that it has there; nil if they do not.
func (cm *Compiled) RefusalOn(v target.Verdict, p *Place) error {
	if len(cm.limits) == 0 {
		return nil
	}
	_, err := cm.mergeOptions(v, p)
	return err
}

// Limits returns the limits that the Bundle was compiled with.
func (cm *Compiled) Limits() policy.Namespaces { return cm.limits }

// limitsOn returns the limits for a deployment on a cluster: those of the namespace of the
// Bundle, and those of the namespace of the cluster.
func (cm *Compiled) limitsOn(p *Place) []*policy.Limits {
	if len(cm.limits) == 0 || isAgents(cm.bundle) && cm.bundle.Name == naming.AgentBundle(p.Name) {
		return nil
	}
	var out []*policy.Limits
	if l := cm.limits[cm.bundle.Namespace]; l != nil {
		out = append(out, l)
	}
	if l := cm.limits[p.Cluster.Namespace]; l != nil && p.Cluster.Namespace != cm.bundle.Namespace {
		out = append(out, l)
	}
	return out
}

// isAgents reports whether a Bundle may be the one of a cluster's agent, to which limits do
// not apply on that cluster. No commit and no HelmOp can make such a Bundle.
func isAgents(b *fleet.Bundle) bool {
	return strings.HasPrefix(b.Name, naming.AgentBundle("")) && b.Labels[fleet.LabelRepoName] == "" && b.Labels[fleet.LabelHelmOpName] == ""
}
