package imports

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestImports reports what one manager does with many clusters at once.
func TestImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	t.Run("Each", func(t *testing.T) {
		for name, test := range map[string]func(*world){
			"Installs": installs, "Moves": moves, "Redeploys": redeploys, "Foreign": foreign, "Kubeconfigs": kubeconfigs,
			"Certificates": certificates, "OwnCluster": ownCluster, "Twins": twins, "Adopts": adopts,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(w.in(t)) })
		}
	})
	t.Run("Unreachable", func(t *testing.T) { unreachable(w.in(t)) })
}

// A Cluster with a kubeconfig gets its agent, which registers and works. What was
// written downstream with the kubeconfig, from the first second to the last, is
// what an agent is made of; nothing was deleted.
func installs(w *world) {
	east, since := w.down[0], time.Now()
	harness.AgentOf(w, east, "agent-installs")
	w.secret("installs", east.Administrator(w, importer))
	w.cluster("installs")
	w.installed("installs")
	w.bundle("installs", "one")
	uid := w.value(east, "installs", "one")
	w.ready("installs")

	c := w.read("installs")
	if s := c.Status; s.APIServerURL != w.hub.Cluster.URL() || s.APIServerCAHash != clusterimport.HashOf(w.hub.Cluster.CA()) || s.AgentTLSMode != registration.TLSStrict ||
		s.AgentDeployedGeneration == nil || !s.AgentMigrated || !s.AgentNamespaceMigrated || !s.CattleNamespaceMigrated || s.AgentConfigChanged {
		w.Errorf("status does not say what the agent got: %+v", s)
	}
	if c.Spec.ClientID == "" {
		w.Error("the Cluster has no clientID")
	}
	w.until("the token has ended, here and there", func() bool {
		_, here := harness.Read[*fleet.ClusterRegistrationToken](w, w.hub, fleet.NamespaceDefault, naming.ImportToken("installs"))
		_, there := harness.Read[*corev1.Secret](w, east, "agent-installs", fleet.SecretAgentBootstrap)
		return !here && !there
	})
	w.rewrite("installs", "two")
	if again := w.value(east, "installs", "two"); again != uid {
		w.Error("the workload was created again")
	}

	account := "system:serviceaccount:kube-system:" + importer
	got := w.written(east, since, account, "agent-installs")
	want := []string{
		"create namespaces agent-installs", "create secrets agent-installs/fleet-agent-bootstrap",
		"patch clusterrolebindings agent-installs-fleet-agent-role-binding", "patch clusterroles agent-installs-fleet-agent-role",
		"patch configmaps agent-installs/fleet-agent", "patch deployments agent-installs/fleet-agent",
		"patch networkpolicies agent-installs/default-allow-all", "patch serviceaccounts agent-installs/fleet-agent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("written with the kubeconfig: -want +got\n%s", diff)
	}
	w.noOtherWriter(east, since, "agent-installs", account)
}

// written lists what a user has written in a namespace of a cluster, and of
// cluster-scoped objects named after it, once each.
func (w *world) written(h *harness.Hub, since time.Time, user, namespace string) []string {
	w.Helper()
	list, err := h.Requests(since)
	w.must(err)
	var out []string
	for _, r := range list {
		about := r.Namespace == namespace || strings.HasPrefix(r.Name, namespace)
		if !r.Writes() || r.User != user || !about || r.Code >= 300 {
			continue
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s %s %s", r.Verb, r.What(), strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")), "/"))
	}
	for i := range out { // of a namespace the audit log names it twice
		out[i] = strings.Replace(out[i], " namespaces "+namespace+"/"+namespace, " namespaces "+namespace, 1)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noOtherWriter fails if one of Fleet's processes but the agent itself and a user
// has written in a namespace.
func (w *world) noOtherWriter(h *harness.Hub, since time.Time, namespace, user string) {
	w.Helper()
	list, err := h.Requests(since)
	w.must(err)
	for _, r := range list {
		kubernetes := strings.HasPrefix(r.User, "system:serviceaccount:kube-system:") && r.User != "system:serviceaccount:kube-system:"+importer ||
			strings.HasPrefix(r.User, "system:kube") || strings.HasPrefix(r.User, "system:node") || strings.HasPrefix(r.User, "kwok")
		own := r.User == "system:serviceaccount:"+namespace+":fleet-agent"
		if r.Writes() && r.Namespace == namespace && r.User != user && !own && !kubernetes && !strings.HasPrefix(r.Agent, harness.TestAgent) {
			w.Errorf("this should not have been written: %s", r)
		}
	}
}

// An agent that moves to another namespace takes over what it has deployed. The
// one before is gone, with all that was made for it, and no workload is touched.
func moves(w *world) {
	west := w.down[1]
	harness.AgentOf(w, west, "agent-moves")
	harness.AgentOf(w, west, "agent-moved")
	w.secret("moves", west.Administrator(w, importer))
	w.cluster("moves")
	w.installed("moves")
	w.bundle("moves", "one")
	uid := w.value(west, "moves", "one")
	w.ready("moves")

	since := time.Now()
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "moves", func(c *fleet.Cluster) { c.Spec.AgentNamespace = "agent-moved" })
	w.until("the agent has moved", func() bool {
		_, old := harness.Read[*appsv1.Deployment](w, west, "agent-moves", "fleet-agent")
		_, role := harness.Read[*rbacv1.ClusterRole](w, west, "", "agent-moves-fleet-agent-role")
		_, binding := harness.Read[*rbacv1.ClusterRoleBinding](w, west, "", "agent-moves-fleet-agent-role-binding")
		_, account := harness.Read[*corev1.ServiceAccount](w, west, "agent-moves", "fleet-agent")
		_, credential := harness.Read[*corev1.Secret](w, west, "agent-moves", fleet.SecretAgent)
		_, lease := harness.Read[*coordinationv1.Lease](w, west, "agent-moves", fleet.SecretAgent)
		_, contact := harness.Read[*corev1.ConfigMap](w, west, "agent-moves", fleet.ConfigMapAgentContact)
		written := lease || contact || credential
		return !old && !role && !binding && !account && !written && w.read("moves").Status.Agent.Namespace == "agent-moved"
	})
	w.rewrite("moves", "two")
	if again := w.value(west, "moves", "two"); again != uid {
		w.Error("the workload was created again")
	}
	w.ready("moves")
	list, err := west.Requests(since)
	w.must(err)
	for _, r := range list {
		record := r.Resource == "secrets" && strings.HasPrefix(r.Name, "sh.helm.release.v1.")
		if r.Namespace == "app-moves" && strings.HasPrefix(r.Verb, "delete") && !record {
			w.Errorf("a workload was deleted: %s", r)
		}
	}
	if _, there := harness.Read[*corev1.Namespace](w, west, "", "agent-moves"); !there {
		w.Error("the namespace was deleted")
	}
}

// A raised redeployAgentGeneration lets the agent register again. It is not
// started again, and its workloads stay.
func redeploys(w *world) {
	west := w.down[1]
	harness.AgentOf(w, west, "agent-redeploys")
	w.secret("redeploys", west.Administrator(w, importer))
	w.cluster("redeploys")
	w.installed("redeploys")
	w.bundle("redeploys", "one")
	uid := w.value(west, "redeploys", "one")
	w.until("the token has ended", func() bool {
		_, here := harness.Read[*fleet.ClusterRegistrationToken](w, w.hub, fleet.NamespaceDefault, naming.ImportToken("redeploys"))
		return !here
	})
	known := w.registrations("redeploys")
	before, _ := harness.Read[*appsv1.Deployment](w, west, "agent-redeploys", "fleet-agent")

	harness.Edit(w, w.hub, fleet.NamespaceDefault, "redeploys", func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration++ })
	w.registeredAgain("redeploys", known)
	w.until("the status says so", func() bool {
		g := w.read("redeploys").Status.AgentDeployedGeneration
		return g != nil && *g == 1
	})
	after, _ := harness.Read[*appsv1.Deployment](w, west, "agent-redeploys", "fleet-agent")
	if after.UID != before.UID || after.Generation != before.Generation {
		w.Error("the agent was started again")
	}
	w.rewrite("redeploys", "two")
	if again := w.value(west, "redeploys", "two"); again != uid {
		w.Error("the workload was created again")
	}
}

// An object that has the name of one of an agent's and belongs to another
// manager is left alone, with a message that names its owner. Once it is gone
// the import goes on.
func foreign(w *world) {
	east := w.down[0]
	east.Namespace(w, "agent-foreign")
	other := registration.Agent{Namespace: "agent-foreign", Image: "other:v1", Labels: map[string]string{fleet.LabelManagerID: "upper"}}
	o, err := other.Objects()
	w.must(err)
	account := harness.Make(w, east, o.ServiceAccount)
	deployment := harness.Make(w, east, o.Deployment)
	since := time.Now()
	w.secret("foreign", east.Administrator(w, importer))
	w.cluster("foreign")
	text := w.imported("foreign", corev1.ConditionFalse, clusterimport.ReasonForeign)
	if !strings.Contains(text, "upper") || !strings.Contains(text, "agent-foreign") {
		w.Errorf("the message does not say whose it is: %s", text)
	}
	if got := w.written(east, since, "system:serviceaccount:kube-system:"+importer, "agent-foreign"); len(got) > 0 {
		w.Errorf("something was written: %v", got)
	}
	a, _ := harness.Read[*corev1.ServiceAccount](w, east, "agent-foreign", "fleet-agent")
	d, _ := harness.Read[*appsv1.Deployment](w, east, "agent-foreign", "fleet-agent")
	if a.UID != account.UID || d.UID != deployment.UID || d.Generation != deployment.Generation {
		w.Error("the other agent was touched")
	}

	w.must(kube.StoreOf[*corev1.ServiceAccount](east.Admin).Delete(w.Context(), kube.KeyOf(account), kube.Precondition{}))
	w.must(kube.StoreOf[*appsv1.Deployment](east.Admin).Delete(w.Context(), kube.KeyOf(deployment), kube.Precondition{}))
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "foreign", func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration++ })
	w.installed("foreign")
}

// Two Clusters that lead to the same place: the second one does not take the
// agent of the first one away.
func twins(w *world) {
	west := w.down[1]
	w.secret("twin-a", west.Administrator(w, importer))
	w.cluster("twin-a", func(c *fleet.Cluster) { c.Spec.AgentNamespace = "agent-twins" })
	w.installed("twin-a")
	w.secret("twin-b", west.Administrator(w, importer))
	w.cluster("twin-b", func(c *fleet.Cluster) { c.Spec.AgentNamespace = "agent-twins" })
	if text := w.imported("twin-b", corev1.ConditionFalse, clusterimport.ReasonForeign); !strings.Contains(text, "fleet-default/twin-a") {
		w.Errorf("the message does not say whose it is: %s", text)
	}
}

// The manager's own cluster is no place for a second agent in its namespace.
func ownCluster(w *world) {
	w.secret("own", w.hub.Administrator(w, importer))
	w.cluster("own", func(c *fleet.Cluster) { c.Spec.AgentNamespace = "" })
	if text := w.imported("own", corev1.ConditionFalse, clusterimport.ReasonOwnCluster); !strings.Contains(text, "agentNamespace") {
		w.Errorf("the message does not say what to do: %s", text)
	}
}

// An agent that a person has installed with the chart, and that has registered,
// is the manager's: a kubeconfig that is added later takes it over where it is.
func adopts(w *world) {
	east := w.down[0]
	east.Namespace(w, "agent-adopts")
	harness.AgentOf(w, east, "agent-adopts")
	token := harness.Make(w, w.hub, &fleet.ClusterRegistrationToken{ObjectMeta: meta(fleet.NamespaceDefault, "adopts")})
	var values *corev1.Secret
	w.until("the token's values", func() bool {
		var ok bool
		values, ok = harness.Read[*corev1.Secret](w, w.hub, token.Namespace, token.Name)
		return ok
	})
	b, err := registration.ReadTokenSecret(values)
	w.must(err)
	plain := registration.Agent{Namespace: "agent-adopts", Scope: "agent-adopts", Image: "chart:v1", Config: registration.AgentConfig{TLSMode: "strict", ClientID: "adopts"}}
	o, err := plain.Objects()
	w.must(err)
	harness.Make(w, w.hub, &fleet.Cluster{ObjectMeta: meta(fleet.NamespaceDefault, "adopts"), Spec: fleet.ClusterSpec{ClientID: "adopts"}})
	harness.Make(w, east, o.ServiceAccount)
	harness.Make(w, east, o.ClusterRole)
	harness.Make(w, east, o.ClusterRoleBinding)
	harness.Make(w, east, o.ConfigMap)
	harness.Make(w, east, &corev1.Secret{ObjectMeta: meta("agent-adopts", fleet.SecretAgentBootstrap), Data: b.Data()})
	made := harness.Make(w, east, o.Deployment)
	w.registeredAgain("adopts", nil)
	w.until("its credential is there", func() bool { return harness.ManagerOf(w, east, "agent-adopts") != "" })

	w.secret("adopts", east.Administrator(w, importer))
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "adopts", func(c *fleet.Cluster) {
		c.Spec.KubeConfigSecret, c.Spec.AgentNamespace = "adopts-kubeconfig", "agent-adopts"
	})
	w.installed("adopts")
	d, _ := harness.Read[*appsv1.Deployment](w, east, "agent-adopts", "fleet-agent")
	if d.UID != made.UID || d.Labels[fleet.LabelManagerID] == "" || d.Annotations[fleet.AnnotationCluster] != "adopts" {
		w.Errorf("not the same Deployment with a mark: %v %v", d.Labels, d.Annotations)
	}
}
