package moving

import (
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// The manager loses its right to see Rancher's objects, and a cluster moves. What is
// not known to be a removal removes nothing; with the right the move goes on.
func blind(w *world) {
	m := w.imports("c-17eye", func(c *fleet.Cluster) { c.Annotations[workspace.AnnotationMoveGrace] = "0s" })
	m.repository("app")
	m.repo(fleet.NamespaceDefault, "app", unchanged)
	m.ready(fleet.NamespaceDefault, "app")
	app, old := m.runs("app"), m.cluster(fleet.NamespaceDefault, m.id)
	w.space("team-eye")
	m.repo("team-eye", "app", unchanged)
	since := time.Now()
	w.mayNotSee("clusters")
	m.move("team-eye")
	m.until("the old Cluster says that it is not known whether it moves", func() bool {
		return strings.Contains(m.moving(fleet.NamespaceDefault), "is not known")
	})
	if says := condition.Find(m.cluster(fleet.NamespaceDefault, m.id).Status.Conditions, fleet.ConditionMoving); says.Status != corev1.ConditionUnknown {
		w.Errorf("it says Moving=%s", says.Status)
	}
	w.imported("team-eye", m.id, corev1.ConditionFalse, workspace.ReasonRancherUnseen)
	if _, ok := harness.Read[*fleet.BundleDeployment](w, m.hub, old.Status.Namespace, m.bundle("app")); !ok {
		w.Error("what it deploys is withdrawn")
	}
	w.hub.Rights(w, chartValues)
	m.gone(fleet.NamespaceDefault, old.Status.Namespace)
	m.online("team-eye", m.id)
	m.ready("team-eye", "app")
	if got := m.touched(since, "app"); len(got) > 0 || m.runs("app").UID != app.UID {
		w.Errorf("the workload was touched:\n%s", harness.Lines(got))
	}
}

// mayNotSee takes from all roles of the chart what they grant on a resource of
// Rancher's, and waits until that counts.
func (w *world) mayNotSee(resource string) {
	w.Helper()
	roles := kube.StoreOf[*rbacv1.ClusterRole](w.hub.Admin)
	all, err := roles.List(w.Context(), "", "")
	w.must(err)
	for _, r := range all {
		if !strings.HasPrefix(r.Name, "fleet-") {
			continue
		}
		without := r.DeepCopy()
		for i := range without.Rules {
			if rule := &without.Rules[i]; slices.Contains(rule.APIGroups, rancher.Clusters.Group) {
				rule.Resources = slices.DeleteFunc(rule.Resources, func(s string) bool { return s == resource })
			}
		}
		without.Rules = slices.DeleteFunc(without.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 && len(r.NonResourceURLs) == 0 })
		_, err := roles.Patch(w.Context(), r, without)
		w.must(err)
	}
	w.until("the API server knows", func() bool {
		return !w.hub.Allows(w, authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + fleet.NamespaceSystem + ":fleet-controller",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: rancher.Clusters.Group, Resource: resource, Verb: "get"},
		})
	})
}
