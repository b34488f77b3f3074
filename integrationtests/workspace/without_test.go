package workspace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestWithoutWorkspaces has a Rancher whose feature fleet was off from the first start:
// there is no kind FleetWorkspace, and no namespace of the local cluster.
func TestWithoutWorkspaces(t *testing.T) {
	w := newWorld(t)
	w.rancher = rancher.NewWithoutFleet(t, w.hub)
	w.rancher.Start(t)
	w.start(plan.Auto)
	w.plays(plan.Map)
	for _, s := range []struct {
		name   string
		report func(*world)
	}{
		{"Local", localWithoutWorkspaces}, {"Triple", tripleWithoutWorkspaces}, {"Namespaces", namespacesWithoutWorkspaces},
		{"Roles", rolesWithoutFleet}, {"KindComes", workspacesCome},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.report(w.in(t)) }) {
			return
		}
	}
}

func localWithoutWorkspaces(w *world) {
	if c := w.mapped(fleet.NamespaceLocal, "local"); c.Spec.AgentNamespace != fleet.NamespaceLocalAgent || c.Spec.KubeConfigSecret == "" {
		w.Errorf("%+v", c.Spec)
	}
	if got := w.namespace(fleet.NamespaceLocal).Labels["app.kubernetes.io/managed-by"]; got != "rancher" {
		w.Errorf("the namespace is not marked as Rancher marks it: %q", got)
	}
}

// tripleWithoutWorkspaces maps a cluster into a namespace that a user has made.
func tripleWithoutWorkspaces(w *world) {
	w.hub.Namespace(w.TB, fleet.NamespaceDefault)
	w.turns("one")
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-one00000", `{"metadata":{"labels":{"tier":"1"}}}`)
	w.sees("it goes on", "1", func() string { return w.label(fleet.NamespaceDefault, "turn-one", "tier") })
}

// namespacesWithoutWorkspaces: a namespace that was made for a workspace does not count as
// forsaken, for nothing says whether that workspace is wanted.
func namespacesWithoutWorkspaces(w *world) {
	_, err := kube.StoreOf[*corev1.Namespace](w.hub.Admin).Create(w.Context(), plan.Namespace(plan.RequestedWorkspace("made"), plan.Create))
	w.must(err)
	w.turns("two")
	w.looks("made")
	w.turns("three")
	if w.leaves("made") {
		w.Error("a namespace went with a kind")
	}
}

// rolesWithoutFleet: such a Rancher deletes the roles of workspaces at every start.
func rolesWithoutFleet(w *world) {
	uid := func() string {
		r, err := kube.StoreOf[*rbacv1.ClusterRole](w.hub.Admin).Get(w.Context(), kube.Key{Name: "fleetworkspace-admin"})
		if err != nil {
			return ""
		}
		return string(r.UID)
	}
	w.until("the roles of workspaces are there", func() bool { return uid() != "" })
	before := uid()
	w.rancher.Restart(w)
	w.until("they are made again", func() bool { return uid() != "" && uid() != before })
}

// workspacesCome: Rancher's next start has the feature, and installs the kind.
func workspacesCome(w *world) {
	before := w.mapped(fleet.NamespaceLocal, "local").UID
	w.rancher.Patch(w, rancher.Features, "", "fleet", `{"spec":{"value":true}}`)
	w.rancher.Restart(w)
	w.plays(plan.Observe)
	since := time.Now()
	w.rancher.Put(w, rancher.Workspaces, "", "team-a", `{}`)
	w.until("Rancher makes namespaces of workspaces", func() bool { return w.namespace("team-a") != nil })
	w.untouched(manager, since, namespaces, "", "team-a")
	w.rancher.Triple(w, "team-a", "held", "c-m-abcd0016", "")
	w.until("the workspace is guarded", func() bool { return len(w.rancher.Get(w, rancher.Workspaces, "", "team-a").GetFinalizers()) > 0 })
	if w.mapped(fleet.NamespaceLocal, "local").UID != before {
		w.Error("the local cluster is another one")
	}
}
