package takeover

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// LabelAutoscaled is the name of the cluster on the HelmOps that Rancher's cluster
// autoscaler makes.
const LabelAutoscaled = "cluster.x-k8s.io/cluster-name"

// HelmOp returns why nothing acts on a HelmOp with these labels; empty if HelmOps are
// supported.
func HelmOp(labels map[string]string) string {
	text := support.Message(support.UnsupportedFields(&fleet.HelmOp{}))
	if cluster := labels[LabelAutoscaled]; text != "" && cluster != "" {
		text = "of Rancher's cluster autoscaler for cluster " + cluster + ": " + text
	}
	return text
}
