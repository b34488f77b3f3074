package restoreguard

import (
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A manager that was restored from a backup asks for what it had removed since,
// until its gitjob has read the repositories. The agent has no record of what it
// has removed. So what such a manager said when it had just been restored is not
// installed for release.BehindLimit, if there is no record of it.

// mayBeRemoved reports whether the agent may have withdrawn a deployment by an order
// that a restored manager does not have any more.
func (g *Guard) mayBeRemoved(q Request) bool {
	return q.unknown() && !q.Agent && (g.detector.wasInRestoredList(q.Object.Name, requestText(q.Object)) || reportedBehind(q.Object))
}

// reportedBehind reports whether the status says that an earlier run of the agent holds
// the request. After a restart of the agent the versions do not show that: those of the
// manager may be higher again than before its restore.
func reportedBehind(bd *fleet.BundleDeployment) bool {
	c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
	return c != nil && c.Status != corev1.ConditionTrue && c.Reason == release.ReasonManagerBehind && c.ObservedGeneration == bd.Generation
}

// unknown reports whether the agent has no record of a deployment that the manager has.
func (r Request) unknown() bool {
	return r.Object != nil && !r.Known && r.Object.Annotations[fleet.AnnotationWithdrawn] == "" && r.Object.Spec.DeploymentID != ""
}
