package rancher_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	reserved "github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// away is a cluster that agents are installed in. Each cluster of Rancher's has an
// agent namespace of its own there: an API server for each would prove nothing
// more.
func (w *world) away(t *testing.T) *harness.Hub {
	t.Helper()
	return harness.ConnectHub(t, harness.Memory(t, "away"))
}

// manage runs agent management and the controllers, by the settings of a chart,
// completed by Rancher's, until stop or the end of the test.
func (w *world) manage(chart registration.Settings) {
	w.Helper()
	client, err := kube.Connect(kube.Config{REST: rest.CopyConfig(w.account), UserAgent: harness.ManagerUserAgent, FieldManager: fleet.FieldManagerAgentManagement})
	w.must(err)
	install := harness.Installed(w, client)
	log := w.log()
	report := func(loop string, key kube.Key, err error) { log.Warnf("%s %s: %v", loop, key, err) }
	w.run(func(ctx context.Context) error {
		follower := workspace.Follower{Client: client, Log: log, Quiet: 300 * time.Millisecond}
		return follower.Follow(ctx, chart, func(ctx context.Context, s registration.Settings) error {
			return kube.Run(ctx, report, agentmanagement.New(agentmanagement.Config{Addresses: reserved.WithLoopback(), Namespace: fleet.NamespaceSystem, Settings: s, Installation: install}, client, log).Runnables()...)
		})
	})
	cfg := controllers.Default()
	cfg.Addresses = reserved.WithLoopback()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = fleet.NamespaceSystem, "test", false, install.ID
	cfg.CheckinInterval, cfg.Workers, cfg.Metrics = 5*time.Second, 4, controllers.NewMetrics()
	w.run(func(ctx context.Context) error { return controllers.Run(ctx, cfg, client, log) })
}

// imported makes an imported cluster, as Rancher leaves one that is connected, with
// an agent in a namespace of its own. more goes into the management Cluster's spec.
func (w *world) imported(name string, kubeconfig []byte, more string) {
	w.Helper()
	w.secret(fleet.NamespaceDefault, name+"-kubeconfig", map[string][]byte{"value": kubeconfig})
	// Rancher sets no agentNamespace but that of the local cluster: a person may.
	harness.Make(w, w.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name}, Spec: fleet.ClusterSpec{AgentNamespace: "agent-" + name},
	})
	w.rancher.Put(w, rancher.Clusters, "", name, `{"spec":{"displayName":"`+name+`","fleetWorkspaceName":"fleet-default"`+more+`},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.until("its provisioning Cluster", func() bool { return w.there(rancher.ProvClusters, fleet.NamespaceDefault, name) })
	w.rancher.Says(w, rancher.ProvClusters, fleet.NamespaceDefault, name, `{"status":{"clusterName":"`+name+`","clientSecretName":"`+name+`-kubeconfig"}}`)
}

// agentIn is the Deployment of an agent; nil while there is none.
func (w *world) agentIn(h *harness.Hub, namespace string) *appsv1.Deployment {
	w.Helper()
	d, ok := harness.Read[*appsv1.Deployment](w, h, namespace, "fleet-agent")
	if !ok {
		return nil
	}
	return d
}

// chart are the settings of a chart that says nothing of where the manager is.
func chart() registration.Settings {
	return registration.Settings{
		AgentImage: "fleet-agent:v0.1.0-test", AgentImagePullPolicy: "IfNotPresent", AgentTLSMode: registration.TLSSystemStore,
		AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimAllow, ImagePullSecrets: []string{"all"},
	}
}

// TestAgents reports how what Rancher's people set reaches the agents.
func TestAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.away(t)
	w.secret(fleet.NamespaceSystem, "all", map[string][]byte{"a": []byte("b")})
	for name, value := range map[string]string{
		plan.SettingServerURL: w.hub.Cluster.URL(), plan.SettingCACerts: string(w.hub.Cluster.CA()), plan.SettingTLSMode: "strict",
		plan.SettingAffinity: `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"preference":{"matchExpressions":[{"key":"preset","operator":"Exists"}]}}]}}`,
	} {
		w.rancher.Put(w, rancher.Settings, "", name, `{"value":`+text(value)+`}`)
	}
	w.start(plan.Auto)
	w.manage(chart())
	kubeconfig := away.Administrator(w, "importer")
	t.Run("Each", func(t *testing.T) {
		t.Run("09Customization", func(t *testing.T) { t.Parallel(); customization(w.in(t), away, kubeconfig) })
		t.Run("10Registry", func(t *testing.T) { t.Parallel(); registry(w.in(t), away, kubeconfig) })
	})
	t.Run("12Address", func(t *testing.T) { address(w.in(t), away, kubeconfig) })
}

// shows returns when the agent's own Bundle is deployed as the Cluster asks for it
// now, and the Deployment shows something.
func (w *world) shows(h *harness.Hub, name, what string, f func(*appsv1.Deployment) bool) {
	w.Helper()
	var last *appsv1.Deployment
	defer func() {
		if w.Failed() && last != nil {
			w.Logf("%s", text(last.Spec.Template.Spec))
		}
	}()
	w.until(name+": "+what, func() bool {
		last = w.agentIn(h, "agent-"+name)
		return last != nil && f(last)
	})
}

// Scenario 9: what is set at the management or the provisioning Cluster shows in
// the Deployment, and goes when it is taken back. The agent works all the time.
func customization(w *world, away *harness.Hub, kubeconfig []byte) {
	const name = "c-cus09"
	harness.AgentOf(w.life, away, "agent-"+name)
	w.imported(name, kubeconfig, "")
	preset := func(d *appsv1.Deployment) bool {
		a := d.Spec.Template.Spec.Affinity
		return a != nil && a.NodeAffinity != nil && a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight == 7
	}
	w.shows(away, name, "it has Rancher's default affinity", preset)
	w.until("it checks in, and its bundle is Ready", func() bool { return w.agentReady(name) })
	before := w.agentIn(away, "agent-"+name).Spec.Template.Spec
	custom := func(value string) {
		w.rancher.Patch(w, rancher.Clusters, "", name, `{"spec":{"fleetAgentDeploymentCustomization":`+value+`}}`)
	}
	custom(`{"appendTolerations":[{"key":"own","operator":"Exists"}],
		"overrideAffinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}},
		"overrideResourceRequirements":{"limits":{"cpu":"2"},"requests":{"memory":"64Mi"}},
		"schedulingCustomization":{"priorityClass":{"value":1000,"preemptionPolicy":"Never"},"podDisruptionBudget":{"minAvailable":"1"}}}`)
	classOf := func(d *appsv1.Deployment) *schedulingv1.PriorityClass {
		if d.Spec.Template.Spec.PriorityClassName == "" {
			return nil
		}
		c, _ := harness.Read[*schedulingv1.PriorityClass](w, away, "", d.Spec.Template.Spec.PriorityClassName)
		return c
	}
	w.shows(away, name, "it has all of it", func(d *appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		c := classOf(d)
		return slices.Contains(pod.Tolerations, corev1.Toleration{Key: "own", Operator: corev1.TolerationOpExists}) &&
			pod.Affinity.PodAffinity != nil && pod.Affinity.NodeAffinity == nil && pod.Containers[0].Resources.Limits.Cpu().String() == "2" &&
			pod.PriorityClassName != "" && c != nil && c.Value == 1000 && *c.PreemptionPolicy == corev1.PreemptNever
	})
	d := w.agentIn(away, "agent-"+name)
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		w.Errorf("%d containers", n)
	}
	for _, t := range before.Tolerations {
		if !slices.Contains(d.Spec.Template.Spec.Tolerations, t) {
			w.Errorf("a toleration of every agent is gone: %+v", t)
		}
	}
	budget := func() bool {
		_, ok := harness.Read[*policyv1.PodDisruptionBudget](w, away, "agent-"+name, "fleet-agent-pod-disruption-budget")
		return ok
	}
	if !budget() {
		w.Error("it has no disruption budget")
	}
	old := d.Spec.Template.Spec.PriorityClassName
	w.rancher.Patch(w, rancher.Clusters, "", name, `{"spec":{"fleetAgentDeploymentCustomization":{"schedulingCustomization":{"priorityClass":{"value":2000}}}}}`)
	w.shows(away, name, "another priority is another class", func(d *appsv1.Deployment) bool { c := classOf(d); return c != nil && c.Value == 2000 })
	w.until("the one before is gone", func() bool { _, there := harness.Read[*schedulingv1.PriorityClass](w, away, "", old); return !there })
	if now := w.agentIn(away, "agent-"+name); now.UID != d.UID {
		w.Error("the agent was created again")
	}
	custom(`null`)
	w.shows(away, name, "all is as before", func(d *appsv1.Deployment) bool {
		return cmp.Equal(d.Spec.Template.Spec, before) && !budget()
	})
	w.until("it checks in, and its bundle is Ready", func() bool { return w.agentReady(name) })
}

// agentReady reports whether the agent of a cluster checks in, and has deployed
// itself as it should be.
func (w *world) agentReady(name string) bool {
	w.Helper()
	c := w.cluster(fleet.NamespaceDefault, name)
	b, ok := harness.Read[*fleet.Bundle](w, w.hub, fleet.NamespaceDefault, "fleet-agent-"+name)
	return condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected) && ok &&
		b.Status.ObservedGeneration >= b.Generation && b.Status.Summary.Ready == 1
}

// Scenario 10: where the agent's image comes from, and with which pull secrets.
func registry(w *world, away *harness.Hub, kubeconfig []byte) {
	const name, hand = "c-reg10", "by-hand"
	for _, one := range []string{name, hand} {
		harness.AgentOf(w.life, away, "agent-"+one)
	}
	w.imported(name, kubeconfig, `,"importedConfig":{"privateRegistryURL":"own.example","privateRegistryPullSecrets":["login"]}`)
	w.secret(fleet.NamespaceDefault, hand+"-kubeconfig", map[string][]byte{"value": kubeconfig})
	harness.Make(w, w.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: hand},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: hand + "-kubeconfig", AgentNamespace: "agent-" + hand},
	})
	is := func(image string, secrets ...string) func(*appsv1.Deployment) bool {
		return func(d *appsv1.Deployment) bool {
			var have []string
			for _, s := range d.Spec.Template.Spec.ImagePullSecrets {
				have = append(have, s.Name)
			}
			return d.Spec.Template.Spec.Containers[0].Image == image && slices.Equal(have, secrets)
		}
	}
	w.shows(away, name, "its own registry, and the secret that Rancher keeps there", is("own.example/fleet-agent:v0.1.0-test", "login-rancher-managed-pull-secret"))
	if _, there := harness.Read[*corev1.Secret](w, away, "agent-"+name, "all"); there {
		w.Error("a cluster with secrets of its own gets no copy of the manager's")
	}
	w.until("it checks in, and its bundle is Ready", func() bool { return w.agentReady(name) })
	w.rancher.Patch(w, rancher.Clusters, "", name, `{"spec":{"importedConfig":{"privateRegistryURL":null}}}`)
	w.shows(away, name, "no registry, and an empty list: no secrets", is("fleet-agent:v0.1.0-test"))
	w.shows(away, hand, "no list: those of the manager", is("fleet-agent:v0.1.0-test", "all"))
	w.until("and copies of them", func() bool {
		s, ok := harness.Read[*corev1.Secret](w, away, "agent-"+hand, "all")
		return ok && string(s.Data["a"]) == "b"
	})
}

// registered is how often the agent of a cluster has asked to register since a
// moment, by the audit log: with the token that was made for it.
func (w *world) registered(namespace, cluster string, since time.Time) int {
	w.Helper()
	list, err := w.hub.Requests(since)
	w.must(err)
	n := 0
	for _, r := range list {
		if r.Verb == "create" && r.Resource == "clusterregistrations" && r.Namespace == namespace && r.Code < 300 && strings.Contains(r.User, "import-token-"+cluster+"-") {
			n++
		}
	}
	return n
}

// Scenario 12: Rancher's server-url and cacerts change. Three downstream agents
// register once each with the new values, after the certificates were wrong for a
// while and were put right; the local one, whose Secret says where its manager is,
// is left alone. Rancher also makes the kubeconfig Secrets again with the same
// values, which adds nothing.
func address(w *world, away *harness.Hub, kubeconfig []byte) {
	names := []string{"c-adr01", "c-adr02", "c-adr03"}
	for _, name := range names {
		harness.AgentOf(w.life, away, "agent-"+name)
		w.imported(name, kubeconfig, "")
	}
	harness.AgentOf(w.life, w.hub, fleet.NamespaceLocalAgent)
	w.secret(fleet.NamespaceLocal, "local-kubeconfig", map[string][]byte{
		"value": w.hub.Administrator(w, "importer"), "apiServerURL": []byte(w.hub.Cluster.URL()), "apiServerCA": w.hub.Cluster.CA(),
	})
	w.rancher.Put(w, rancher.Clusters, "", "local", `{"spec":{"displayName":"local","internal":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.until("its provisioning Cluster", func() bool { return w.there(rancher.ProvClusters, fleet.NamespaceLocal, "local") })
	w.rancher.Says(w, rancher.ProvClusters, fleet.NamespaceLocal, "local", `{"status":{"clusterName":"local","clientSecretName":"local-kubeconfig"}}`)
	online := func(namespace, name string) bool {
		c := w.cluster(namespace, name)
		return c != nil && condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected) && condition.IsTrue(c.Status.Conditions, fleet.ConditionImported)
	}
	w.until("all check in", func() bool {
		return online(fleet.NamespaceLocal, "local") && !slices.ContainsFunc(names, func(n string) bool { return !online(fleet.NamespaceDefault, n) })
	})
	since := time.Now()
	local, _ := harness.Read[*corev1.Secret](w, w.hub, fleet.NamespaceLocalAgent, fleet.SecretAgent)

	set := func(name, value string) { w.rancher.Patch(w, rancher.Settings, "", name, `{"value":`+text(value)+`}`) }
	right := strings.Replace(w.hub.Cluster.URL(), "127.0.0.1", "localhost", 1)
	set(plan.SettingCACerts, string(away.Cluster.CA())) // of another authority
	set(plan.SettingServerURL, right)
	reported := func(name string) string { return w.cluster(fleet.NamespaceDefault, name).Status.APIServerURL }
	w.until("the first have the address", func() bool {
		return slices.ContainsFunc(append(slices.Clone(names), "c-cus09", "c-reg10", "by-hand"), func(n string) bool { return reported(n) == right })
	})
	for _, n := range names {
		if got := harness.ManagerOf(w, away, "agent-"+n); got != w.hub.Cluster.URL() {
			w.Errorf("%s has left its manager for one that it cannot trust: %s", n, got)
		}
	}
	set(plan.SettingCACerts, string(w.hub.Cluster.CA()))
	for _, n := range names { // as Rancher does, when its own address changes
		w.remake(fleet.NamespaceDefault, n+"-kubeconfig")
	}
	w.until("all have gone there", func() bool {
		return !slices.ContainsFunc(names, func(n string) bool {
			return harness.ManagerOf(w, away, "agent-"+n) != right || !online(fleet.NamespaceDefault, n)
		})
	})
	for _, n := range names {
		if got := w.registered(fleet.NamespaceDefault, n, since); got != 1 {
			w.Errorf("%s has registered %d times", n, got)
		}
	}
	if got := w.cluster(fleet.NamespaceDefault, names[0]).Status.APIServerCAHash; got != clusterimport.HashOf(w.hub.Cluster.CA()) {
		w.Error("status does not say which certificates count")
	}
	if now, _ := harness.Read[*corev1.Secret](w, w.hub, fleet.NamespaceLocalAgent, fleet.SecretAgent); now.ResourceVersion != local.ResourceVersion || w.registered(fleet.NamespaceLocal, "local", since) != 0 {
		w.Error("the local agent was touched")
	}
}

// remake deletes a Secret and makes it again, as it was.
func (w *world) remake(namespace, name string) {
	w.Helper()
	s, ok := harness.Read[*corev1.Secret](w, w.hub, namespace, name)
	if !ok {
		w.Fatalf("Secret %s/%s is not there", namespace, name)
	}
	w.must(kube.StoreOf[*corev1.Secret](w.hub.Admin).Delete(w.Context(), kube.KeyOf(s), kube.Precondition{UID: s.UID}))
	w.secret(namespace, name, s.Data)
}
