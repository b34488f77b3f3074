package agentmanagement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The manager's cluster is downstream of another manager, whose agent lives in the
// manager's own namespace. Installing the local agent, changing it and removing it
// touches nothing of the other one.
func TestLocalAgentBesideAnother(t *testing.T) {
	t.Parallel()
	g := openManagerProcess(t, harness.Memory(t, "management"), map[string]any{"bootstrap": map[string]any{"localAgentDisabled": true}})
	ctx := t.Context()
	upper := registration.Agent{
		Namespace: fleet.NamespaceSystem, Image: "upper/fleet-agent:v1", ImagePullPolicy: "IfNotPresent",
		Labels: map[string]string{fleet.LabelManagerID: "upper"},
	}
	o, err := upper.Objects()
	if err != nil {
		t.Fatal(err)
	}
	create(t, g.admin, o.ServiceAccount)
	create(t, g.admin, o.ClusterRole)
	create(t, g.admin, o.ClusterRoleBinding)
	create(t, g.admin, o.NetworkPolicy)
	create(t, g.admin, o.ConfigMap)
	create(t, g.admin, o.Deployment)
	create(t, g.admin, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: upper.Namespace, Name: fleet.SecretAgent, Labels: upper.Labels},
		Data:       map[string][]byte{registration.KeyKubeconfig: []byte("upper")},
	})
	classes := kubernetes.NewForConfigOrDie(g.cluster.REST()).SchedulingV1().PriorityClasses()
	class, err := classes.Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-agent-priority-class"}, Value: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	look := func() map[string]string {
		out := map[string]string{}
		note(t, g.admin, out, kube.KeyOf(o.ServiceAccount), &corev1.ServiceAccount{})
		note(t, g.admin, out, kube.KeyOf(o.ClusterRole), &rbacv1.ClusterRole{})
		note(t, g.admin, out, kube.KeyOf(o.ClusterRoleBinding), &rbacv1.ClusterRoleBinding{})
		note(t, g.admin, out, kube.KeyOf(o.NetworkPolicy), &networkingv1.NetworkPolicy{})
		note(t, g.admin, out, kube.KeyOf(o.ConfigMap), &corev1.ConfigMap{})
		note(t, g.admin, out, kube.KeyOf(o.Deployment), &appsv1.Deployment{})
		note(t, g.admin, out, kube.Key{Namespace: upper.Namespace, Name: fleet.SecretAgent}, &corev1.Secret{})
		now, err := classes.Get(ctx, class.Name, metav1.GetOptions{})
		if err != nil || now.UID != class.UID {
			t.Errorf("the PriorityClass is another: %v", err)
		}
		return out
	}
	before := look()
	local := kube.Key{Namespace: fleet.NamespaceLocalAgent, Name: "fleet-agent"}
	deployments := kube.StoreOf[*appsv1.Deployment](g.admin)

	g.halt()
	installChart(t, g.admin, "fleet", nil)
	g.run()
	var d *appsv1.Deployment
	until(t, "the local agent is installed", func() bool {
		d, err = deployments.Get(ctx, local)
		return err == nil
	})
	if d.Labels[fleet.LabelManagerID] == "upper" || d.Labels[fleet.LabelManagerID] == "" {
		t.Errorf("the local agent bears no mark of its manager: %v", d.Labels)
	}
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("installing it has touched the other agent: -before +after\n%s", diff)
	}

	g.halt()
	installChart(t, g.admin, "fleet", map[string]any{"bootstrap": map[string]any{"localAgentDisabled": true}})
	g.run()
	until(t, "the local agent is removed", func() bool {
		_, err := deployments.Get(ctx, local)
		_, err2 := kube.StoreOf[*rbacv1.ClusterRole](g.admin).Get(ctx, kube.Key{Name: local.Namespace + "-fleet-agent-role"})
		return kube.IsGone(err) && kube.IsGone(err2)
	})
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("removing it has touched the other agent: -before +after\n%s", diff)
	}
}

// note writes down which object there is: by its UID and its generation, since
// controllers write the status of some.
func note[P kube.Object](t *testing.T, c *kube.Client, to map[string]string, key kube.Key, _ P) {
	t.Helper()
	obj, err := kube.StoreOf[P](c).Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	to[fmt.Sprintf("%T %s", obj, key)] = fmt.Sprint(obj.GetUID(), obj.GetGeneration(), obj.GetLabels())
}
