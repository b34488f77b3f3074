package agents_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
)

// TestLocalAgent: the agent of the manager's own cluster is installed through a
// kubeconfig, keeps its bundle like any other, and is the first to be updated.
func TestLocalAgent(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.manage("x/agent:v1.0.0")
	local, edge := w.localAgent(), w.join("edge", "v1.0.0", nil)
	sites := []*site{local, edge}
	w.until("both have their bundles", func() bool { return local.deployed() && edge.deployed() && w.state().UpToDate == 2 })
	if got := local.deployment().Annotations["deployment.kubernetes.io/revision"]; got != "1" {
		t.Errorf("the local agent was started again when its bundle took it over: revision %s", got)
	}
	upper := w.upperAgent()

	const next = "x/agent:v2.0.0"
	w.breaks(next) // so that it takes its time
	w.manage(next)
	w.until("the local agent is moved", func() bool { return local.image() == next })
	if got := edge.image(); got != "x/agent:v1.0.0" {
		t.Errorf("the others did not wait for it: %s", got)
	}
	w.mends(next)
	w.until("both have the new version", func() bool {
		s := w.state()
		return s.Phase == agentrollout.Current && s.Image == "x/agent:v2.0.0" && s.UpToDate == 2
	})
	if diff := cmp.Diff([]string{"x/agent:v2.0.0"}, images(sites)); diff != "" {
		t.Error(diff)
	}
	if got := local.deployment().Annotations["deployment.kubernetes.io/revision"]; got != "2" {
		t.Errorf("its installer and its bundle do not agree: revision %s", got)
	}
	if now, err := w.client.AppsV1().Deployments(fleet.NamespaceSystem).Get(t.Context(), "fleet-agent", metav1.GetOptions{}); err != nil ||
		now.UID != upper.UID || now.Generation != upper.Generation || now.Labels[fleet.LabelManagerID] != "upper" {
		t.Errorf("the agent of another manager in %s was touched: %v", fleet.NamespaceSystem, err)
	}
}

// upperAgent puts the agent of another manager where a manager of managers puts
// it: in the namespace of this one.
func (w *world) upperAgent() *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: "fleet-agent", Labels: map[string]string{fleet.LabelManagerID: "upper"}},
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fleet-agent"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "fleet-agent", Image: "upper/agent:v9.0.0"}}
	made, err := w.client.AppsV1().Deployments(d.Namespace).Create(w.Context(), d, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// localAgent waits until the agent of the manager's own cluster is installed, and plays
// its pod.
func (w *world) localAgent() *site {
	w.Helper()
	local := &site{
		world: w, key: kube.Key{Namespace: fleet.NamespaceLocal, Name: fleet.ClusterLocal}, namespace: fleet.NamespaceLocalAgent,
	}
	w.until("the local agent is installed", func() bool {
		_, err := w.client.AppsV1().Deployments(local.namespace).Get(w.Context(), "fleet-agent", metav1.GetOptions{})
		return err == nil
	})
	local.play()
	return local
}
