package agentmanagement_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The manager's own cluster joins by itself.
func TestLocalCluster(t *testing.T) {
	g := openManagerProcess(t, harness.Memory(t, "management"), map[string]any{"bootstrap": map[string]any{"clusterLabels": map[string]any{"env": "mgmt"}}})
	ctx := t.Context()
	key := kube.Key{Namespace: fleet.NamespaceLocal, Name: fleet.ClusterLocal}
	var c *fleet.Cluster
	until(t, "the Cluster is processed and its agent installed", func() bool {
		var err error
		c, err = kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, key)
		return err == nil && condition.IsTrue(c.Status.Conditions, fleet.ConditionProcessed) &&
			condition.IsTrue(c.Status.Conditions, fleet.ConditionImported)
	})
	if c.Labels["name"] != "local" || c.Labels["env"] != "mgmt" || c.Spec.ClientID == "" ||
		c.Spec.AgentNamespace != fleet.NamespaceLocalAgent {
		t.Errorf("not the local Cluster: %v %+v", c.Labels, c.Spec)
	}
	if _, err := kube.StoreOf[*fleet.ClusterGroup](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceLocal, Name: "default"}); err != nil {
		t.Error(err)
	}
	t.Run("KubeconfigWorks", func(t *testing.T) {
		s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceLocal, Name: registration.SecretLocalKubeconfig})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("the kubeconfig is an administrator's: %v", err)
		}
	})
	agent := kube.Key{Namespace: fleet.NamespaceLocalAgent, Name: "fleet-agent"}
	t.Run("WishesTakenBack", func(t *testing.T) {
		wish := func(s *fleet.AgentSchedulingCustomization) {
			harness.Revise(t, g.admin, key, func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization = s })
		}
		has := func() (budgets, classes int) {
			list, err := kube.StoreOf[*policyv1.PodDisruptionBudget](g.admin).List(ctx, agent.Namespace, "")
			if err != nil {
				t.Fatal(err)
			}
			all, err := kube.StoreOf[*schedulingv1.PriorityClass](g.admin).List(ctx, "", fleet.LabelManagerID)
			if err != nil {
				t.Fatal(err)
			}
			return len(list), len(all)
		}
		budget := &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"}
		wish(&fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 7}, PodDisruptionBudget: budget})
		until(t, "the agent has what its Cluster asks for", func() bool { b, c := has(); return b == 1 && c == 1 })
		wish(&fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 8}})
		until(t, "and nothing of before", func() bool { b, c := has(); return b == 0 && c == 1 })
		wish(nil)
		until(t, "or nothing at all", func() bool { b, c := has(); return b == 0 && c == 0 })
	})
	t.Run("AgentRegisters", func(t *testing.T) {
		if _, err := kube.StoreOf[*appsv1.Deployment](g.admin).Get(ctx, agent); err != nil {
			t.Fatal(err)
		}
		var b registration.Bootstrapping
		bootstrap := kube.Key{Namespace: fleet.NamespaceLocalAgent, Name: fleet.SecretAgentBootstrap}
		until(t, "the agent may register", func() bool {
			s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, bootstrap)
			if err == nil {
				b = registration.ReadBootstrapping(s.Data)
			}
			return err == nil
		})
		m := g.register(map[string]any{
			"token": b.Token, "tokenName": b.TokenName, "clusterNamespace": b.ClusterNamespace,
			"systemRegistrationNamespace": b.RegistrationNamespace,
		}, c.Spec.ClientID, "random", nil)
		if got := g.clusterOf(m); got.Name != "local" {
			t.Errorf("want the local Cluster, got %s", got.Name)
		}
		create(t, g.admin, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: agent.Namespace, Name: fleet.SecretAgent},
			Data:       map[string][]byte{registration.KeyKubeconfig: []byte("k")},
		})
		if err := kube.StoreOf[*corev1.Secret](g.admin).Delete(ctx, bootstrap, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		g.restsFor(2 * time.Second)
		if _, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, bootstrap); !kube.IsGone(err) {
			t.Errorf("a registered agent gets no bootstrap Secret again: %v", err)
		}
	})
	t.Run("VoidCredentialIsReplaced", func(t *testing.T) {
		for _, r := range g.requests(fleet.NamespaceLocal) {
			if err := kube.StoreOf[*fleet.ClusterRegistration](g.admin).Delete(ctx, kube.KeyOf(r), kube.Precondition{}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the agent may register again", func() bool {
			_, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, agent)
			_, err2 := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, kube.Key{Namespace: agent.Namespace, Name: fleet.SecretAgentBootstrap})
			return kube.IsGone(err) && err2 == nil
		})
	})
	t.Run("DisabledAgentIsRemoved", func(t *testing.T) {
		g.halt()
		installChart(t, g.admin, "fleet", map[string]any{"bootstrap": map[string]any{"localAgentDisabled": true}})
		g.run()
		until(t, "the agent and its rights are gone, the Cluster stays", func() bool {
			_, err := kube.StoreOf[*appsv1.Deployment](g.admin).Get(ctx, agent)
			_, err2 := kube.StoreOf[*rbacv1.ClusterRoleBinding](g.admin).Get(ctx, kube.Key{Name: agent.Namespace + "-fleet-agent-role-binding"})
			_, err3 := kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, key)
			return kube.IsGone(err) && kube.IsGone(err2) && err3 == nil
		})
		g.restsFor(2 * time.Second)
	})
}
