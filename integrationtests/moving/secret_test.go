package moving

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
)

// A cluster that was provisioned in one workspace, which is none of those that share
// their kubeconfigs, moves to another one. Its kubeconfig stays where it is, and the
// manager reads it there, because Rancher's objects say whose it is. It uses the
// kubeconfig for no other cluster.
func provisioned(w *world) {
	const id, name = "c-m-abcd0018", "c18"
	w.space("a18")
	w.space("b18")
	w.rancher.Attach(w, id, w.down.Cluster.REST())
	harness.AgentOf(w, w.down, "agent-"+name)
	harness.Make(w, w.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a18", Name: name},
		Spec:       fleet.ClusterSpec{AgentNamespace: "agent-" + name},
	})
	w.put(rancher.ProvClusters, "a18", name, `{"spec":{"rkeConfig":{}}}`)
	w.patch(rancher.ProvClusters, "a18", name, `{"metadata":{"annotations":{"provisioning.cattle.io/management-cluster-name":"`+id+`"}}}`)
	w.until("Rancher has a management Cluster", func() bool { return w.rancherID("a18", name) != "" })
	id2 := w.rancherID("a18", name)
	if id2 != id {
		w.rancher.Attach(w, id2, w.down.Cluster.REST())
	}
	w.patch(rancher.Clusters, "", id2, `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Connected","status":"True"}]}}`)
	w.online("a18", name)
	first := w.cluster("a18", name)

	since := time.Now()
	w.patch(rancher.Clusters, "", id2, `{"spec":{"fleetWorkspaceName":"b18"}}`)
	w.online("b18", name)
	c := w.cluster("b18", name)
	if c.Spec.KubeConfigSecretNamespace != "a18" || c.Spec.ClientID != first.Spec.ClientID {
		w.Errorf("it is not the cluster of a18: %+v", c.Spec)
	}

	// Members of b18 forge Clusters: one that names a Secret of a third workspace, one
	// that says it is Rancher's cluster, and one by the Secret of the cluster that has
	// moved, under another name.
	w.hub.Namespace(w, "c18")
	harness.Make(w, w.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c18", Name: "stolen-kubeconfig"},
		Data:       map[string][]byte{"value": harness.Kubeconfig(w.down.Cluster.URL(), w.down.Cluster.CA(), "t")},
	})
	for forged, spec := range map[string]struct{ in, secret, label string }{
		"stolen": {in: "c18", secret: "stolen-kubeconfig"}, "labelled": {in: "c18", secret: "stolen-kubeconfig", label: id2},
		"absent": {in: "c18", secret: "no-such-secret", label: id2}, "twin": {in: "a18", secret: name + "-kubeconfig"},
	} {
		f := &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "b18", Name: forged},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: spec.secret, KubeConfigSecretNamespace: spec.in},
		}
		if spec.label != "" {
			f.Labels = map[string]string{fleet.LabelManagementCluster: spec.label}
		}
		harness.Make(w, w.hub, f)
		if text := w.imported("b18", forged, corev1.ConditionFalse, clusterimport.ReasonSecretForbidden); !strings.Contains(text, "not allowed") {
			w.Errorf("%s: %s", forged, text)
		}
	}
	for _, r := range w.audit(w.hub, since) {
		if r.Resource == "secrets" && r.Verb == "get" && r.Namespace == "c18" && strings.HasPrefix(r.Agent, harness.ManagerUserAgent) {
			w.Errorf("a Secret was read that no Cluster may use: %s", r)
		}
	}
}

// rancherID is the name of the management Cluster of a provisioning Cluster.
func (w *world) rancherID(namespace, name string) string {
	w.Helper()
	p, err := w.objects.Resource(rancher.ProvClusters).Namespace(namespace).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	status, _ := p.Object["status"].(map[string]any)
	id, _ := status["clusterName"].(string)
	return id
}

// The kubeconfig is deleted and made again, as Rancher does when its address has
// changed: the manager gives the agent the new address once, and takes no gap for
// an order or a fault. While the new Secret does not contain the address, the
// manager gives the agent none.
func rotated(w *world) {
	const name = "c11"
	harness.AgentOf(w, w.down, "agent-"+name)
	account := w.down.Account(w, "kube-system", name)
	w.down.Allow(w, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: name}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	kubeconfig := harness.Kubeconfig(w.down.Cluster.URL(), w.down.Cluster.CA(), account.BearerToken)
	secrets := kube.StoreOf[*corev1.Secret](w.hub.Admin)
	key := kube.Key{Namespace: fleet.NamespaceDefault, Name: name + "-kubeconfig"}
	secret := func(url string) {
		w.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{clusterimport.KeyKubeconfig: kubeconfig}}
		if url != "" {
			s.Data[clusterimport.KeyAPIServerURL], s.Data[clusterimport.KeyAPIServerCA] = []byte(url), w.hub.Cluster.CA()
		}
		harness.Make(w, w.hub, s)
	}
	reported := func() string { return w.cluster(fleet.NamespaceDefault, name).Status.APIServerURL }
	// Neither address is that of the settings, which is the fallback.
	const again = 30 * time.Second // when something is tried again of which no news come
	one := strings.Replace(w.hub.Cluster.URL(), "127.0.0.1", "localhost", 1)
	two := one + "/"
	secret(one)
	harness.Make(w, w.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: key.Name, AgentNamespace: "agent-" + name},
	})
	w.online(fleet.NamespaceDefault, name)
	w.until("the agent has the first address", func() bool { return reported() == one })

	gone := func(gap string, try int) time.Duration {
		since := time.Now()
		w.must(secrets.Delete(w.Context(), key, kube.Precondition{}))
		if gap != "no Secret" {
			secret("")
		}
		w.turns(fmt.Sprintf("c11-turn-%d-%d", len(gap), try))
		if got := w.installs(name, since); got > 0 || reported() != one {
			w.Errorf("%s: %d imports, the agent has %s", gap, got, reported())
		}
		if gap != "no Secret" {
			w.must(secrets.Delete(w.Context(), key, kube.Precondition{}))
		}
		offered := time.Now()
		secret(two)
		w.until("the agent has the other address", func() bool { return reported() == two })
		took := time.Since(offered)
		w.online(fleet.NamespaceDefault, name)
		w.imported(fleet.NamespaceDefault, name, corev1.ConditionTrue, "")
		if got := w.installs(name, since); got != 1 {
			w.Errorf("%s: %d imports, want one", gap, got)
		}
		one, two = two, one
		return took
	}
	for _, gap := range []string{"no Secret", "a Secret without address"} {
		if took := harness.Fastest(again, func(try int) time.Duration { return gone(gap, try) }); took > again {
			w.Errorf("%s: it took %s", gap, took)
		}
	}
	c := w.cluster(fleet.NamespaceDefault, name)
	if c.Status.APIServerCAHash != clusterimport.HashOf(w.hub.Cluster.CA()) {
		w.Error("the status does not say which certificates the agent has")
	}
}

// installs counts the imports of a cluster since a moment: how often the Secret was
// written that its agent registers with.
func (w *world) installs(name string, since time.Time) int {
	w.Helper()
	var codes []int
	for _, r := range w.audit(w.down, since) {
		if r.Writes() && r.Verb != "delete" && r.Namespace == "agent-"+name && r.Name == fleet.SecretAgentBootstrap && strings.HasPrefix(r.Agent, harness.ManagerUserAgent) {
			codes = append(codes, r.Code)
		}
	}
	return len(slices.DeleteFunc(codes, func(c int) bool { return c >= 300 }))
}

// turns waits until imports have had a turn for whatever has changed: they answer for
// a Cluster that was made after it.
func (w *world) turns(name string) {
	w.Helper()
	harness.Make(w, w.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig"},
	})
	w.imported(fleet.NamespaceDefault, name, corev1.ConditionFalse, clusterimport.ReasonSecretMissing)
}
