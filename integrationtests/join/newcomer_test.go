package join

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A newcomer is a cluster with an agent that has to register. Several share one
// API server: each has a namespace and a clientID of its own.
type newcomer struct {
	*harness.Site
	w *world
}

// newcomer makes a cluster whose agent has a clientID ("": none, the cluster's own
// identity counts), and starts nothing.
func (w *world) newcomer(t testing.TB, down *harness.Hub, name, clientID string, labels map[string]string) *newcomer {
	t.Helper()
	n := &newcomer{Site: harness.NewUnregisteredSite(t, w.hub, down, name, "agent-"+name), w: w.in(t)}
	n.Config.CheckinInterval = checkIn
	n.Workspace = fleet.NamespaceDefault
	n.Configure(registration.AgentConfig{TLSMode: registration.TLSStrict, ClientID: clientID, Labels: labels})
	return n
}

// forgotten reports whether there is no registration token any more.
func (n *newcomer) forgotten() bool {
	n.Helper()
	_, err := kube.StoreOf[*corev1.Secret](n.Down.Admin).Get(n.Context(), kube.Key{Namespace: n.Namespace, Name: fleet.SecretAgentBootstrap})
	if err != nil && !kube.IsGone(err) {
		n.Fatal(err)
	}
	return err != nil
}

// credential is the Secret fleet-agent; nil: there is none.
func (n *newcomer) credential() *corev1.Secret {
	n.Helper()
	s, err := kube.StoreOf[*corev1.Secret](n.Down.Admin).Get(n.Context(), kube.Key{Namespace: n.Namespace, Name: fleet.SecretAgent})
	if kube.IsGone(err) {
		return nil
	}
	n.Must(err)
	return s
}

// in waits until the agent is in and checks in, with another credential than the
// one before, and takes its Cluster down.
func (n *newcomer) in(before *corev1.Secret) *fleet.Cluster {
	n.Helper()
	var c *fleet.Cluster
	n.Until("the agent is in", func() bool {
		s := n.credential()
		if s == nil || before != nil && string(s.Data["kubeconfig"]) == string(before.Data["kubeconfig"]) {
			return false
		}
		var ok bool
		n.Workspace, n.Name, n.Deployments = string(s.Data["clusterNamespace"]), string(s.Data["clusterName"]), string(s.Data["deploymentNamespace"])
		c, ok = get[*fleet.Cluster](n.w, n.Workspace, n.Name)
		return ok && c.Status.Agent.Namespace == n.Namespace && n.forgotten() && n.Contact()["reached"] == "true"
	})
	return c
}

// cluster is the Cluster of the newcomer.
func (n *newcomer) cluster() *fleet.Cluster {
	n.Helper()
	c, ok := get[*fleet.Cluster](n.w, n.Workspace, n.Name)
	if !ok {
		n.Fatalf("Cluster %s is gone", n.Name)
	}
	return c
}

// granted are the requests that were granted for the newcomer's Cluster.
func (n *newcomer) granted() []*fleet.ClusterRegistration {
	n.Helper()
	var out []*fleet.ClusterRegistration
	for _, r := range n.w.requests(n.Workspace) {
		if r.Status.Granted && r.Status.ClusterName == n.Name {
			out = append(out, r)
		}
	}
	return out
}

// alone waits until the Cluster has one credential, and returns its request.
func (n *newcomer) alone() *fleet.ClusterRegistration {
	n.Helper()
	n.Until("one credential is left", func() bool {
		accounts := list[*corev1.ServiceAccount](n.w, fleet.NamespaceRegistration, fleet.LabelCluster+"="+n.Name)
		return len(n.granted()) == 1 && len(accounts) == 1
	})
	return n.granted()[0]
}

// says waits for an event of the agent, and returns its text.
func (n *newcomer) says(reason string) string {
	n.Helper()
	return reportedIn(n.w, n.Down, n.Namespace, "fleet-agent-contact", reason)
}

// works deploys something, and waits until it is there.
func (n *newcomer) works(name, value string) {
	n.Helper()
	n.Order(name, harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", value)}})
	n.State(name, fleet.Ready)
	if got := n.Data(n.Home(name), "a"); got != value {
		n.Errorf("want %s, got %q", value, got)
	}
}

// uid is the identity of a workload of the newcomer.
func (n *newcomer) uid(name string) types.UID {
	n.Helper()
	cm, err := kube.StoreOf[*corev1.ConfigMap](n.Down.Admin).Get(n.Context(), kube.Key{Namespace: n.Home(name), Name: "a"})
	n.Must(err)
	return cm.UID
}

// condition waits for a condition of the newcomer's Cluster, and returns its
// message.
func (n *newcomer) condition(kind string) string {
	n.Helper()
	var found *fleet.Condition
	n.Until("condition "+kind, func() bool {
		found = condition.Find(n.cluster().Status.Conditions, kind)
		return found != nil && found.Status == corev1.ConditionTrue
	})
	return found.Message
}
