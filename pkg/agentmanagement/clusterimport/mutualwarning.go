package clusterimport

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// reasonMutual is the reason of an event that says that two managers manage each
// other's cluster.
const reasonMutual = "ManagesEachOther"

// warnMutual emits an event if a manager that runs in the cluster of a Cluster has an
// agent in this manager's cluster. The objects of both do not conflict, so the import
// continues.
func (l *Loop) warnMutual(ctx context.Context, c *fleet.Cluster, d *downstream.Cluster) {
	there, err := kube.StoreOf[*corev1.ConfigMap](d.Client).List(ctx, "", fleet.LabelManagerID)
	if err != nil {
		return
	}
	own := kube.StoreOf[*corev1.ConfigMap](l.client)
	for _, m := range there {
		id := m.Labels[fleet.LabelManagerID]
		if m.Name != fleet.ConfigMapInstallation || id == l.cfg.Installation.ID {
			continue
		}
		agents, err := own.List(ctx, "", fleet.LabelManagerID+"="+id)
		if err != nil {
			return
		}
		for _, a := range agents {
			if a.Name != fleet.ConfigMapAgent {
				continue
			}
			l.events.Event(c, kube.Warning, reasonMutual, fmt.Sprintf(
				"the manager in namespace %q of this cluster manages the cluster of this manager, too: its agent lives here in namespace %q. That is allowed; an update of one manager updates an agent beside the other",
				m.Namespace, a.Namespace))
			return
		}
	}
}
