package beside

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// other is the namespace of another manager.
const other = "fleet-b"

// TestAnotherManager: two managers of one API never work at once. The second one
// refuses before it has written anything, or waits if it is configured to take
// over.
func TestAnotherManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t, harness.Memory(t, "managers"))
	w.hub.Namespace(t, other)
	for _, s := range []struct {
		name   string
		report func(*world)
	}{
		{"Refuses", refuses}, {"WaitsToTakeOver", waitsToTakeOver}, {"OursToo", oursToo},
		{"InPlace", inPlace}, {"NotUpgraded", notUpgraded},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.report(w.in(t)) }) {
			return
		}
	}
}

// reference creates the objects by which the reference's manager is recognised
// in a namespace: its ConfigMap, its Deployment with a pod, and a lease that it
// holds.
func (w *world) reference(namespace string) {
	w.Helper()
	w.config(namespace, map[string]string{fleet.AnnotationVersion: "v0.16.1"})
	label := map[string]string{"app": "fleet-controller"}
	_, err := kube.StoreOf[*appsv1.Deployment](w.hub.Admin).Create(w.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet-controller"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: label}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: label},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "fleet-controller", Image: "none.invalid/fleet:v0.16.1"}}},
		}},
	})
	w.must(err)
	w.until("it has a pod", func() bool {
		d, err := kube.StoreOf[*appsv1.Deployment](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: "fleet-controller"})
		return err == nil && d.Status.ReadyReplicas == 1
	})
	w.holds(namespace, controllers.LeaseController, "reference")
}

func (w *world) config(namespace string, annotations map[string]string) {
	w.Helper()
	_, err := kube.StoreOf[*corev1.ConfigMap](w.hub.Admin).Apply(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleet.ConfigMapController, Annotations: annotations},
		Data:       map[string]string{fleet.KeyConfig: "{}"},
	})
	w.must(err)
}

// holds makes another process the holder of a lease, for an hour.
func (w *world) holds(namespace, name, who string) {
	w.Helper()
	now, seconds := metav1.NewMicroTime(time.Now()), int32(3600)
	_, err := kube.StoreOf[*coordinationv1.Lease](w.hub.Admin).Apply(w.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, RenewTime: &now, LeaseDurationSeconds: &seconds},
	})
	w.must(err)
}

// holder is who holds a lease.
func (w *world) holder(namespace, name string) string {
	l, err := kube.StoreOf[*coordinationv1.Lease](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// releases deletes leases.
func (w *world) releases(namespace string, names ...string) {
	w.Helper()
	for _, name := range names {
		w.must(kube.StoreOf[*coordinationv1.Lease](w.hub.Admin).Delete(w.Context(), kube.Key{Namespace: namespace, Name: name}, kube.Precondition{}))
	}
}

// refuses: both processes of the chart find the other manager, name it, and have
// written nothing.
func refuses(w *world) {
	w.reference(other)
	since := time.Now()
	for _, name := range []string{"fleet-controller", "gitjob"} {
		r := w.start(name, name+"-0")
		r.refused(`"`+other+`"`, "Deployment fleet-controller has ready pods", `lease `+controllers.LeaseController+` is held by`, "reference", "--takeover")
		if list := w.writes(name, since); len(list) > 0 {
			w.Errorf("%s wrote before it refused:\n%s", name, harness.Lines(list))
		}
		if list := w.forbidden(name); name == "fleet-controller" && len(list) > 0 {
			w.Errorf("%s was not allowed:\n%s", name, harness.Lines(list))
		}
	}
}

// waitsToTakeOver: with --takeover it is ready, so that Helm does not give up, and
// begins when the other has ended.
func waitsToTakeOver(w *world) {
	since := time.Now()
	r := w.start("fleet-controller", "taker", "--takeover")
	r.says("waits for the end of the manager in namespace")
	w.until("it is ready while it waits", r.ready)
	if list := w.writes("fleet-controller", since); len(list) > 0 {
		w.Errorf("it wrote while the other was at work:\n%s", harness.Lines(list))
	}
	w.releases(other, controllers.LeaseController)
	none := int32(0)
	harness.Edit(w, w.hub, other, "fleet-controller", func(d *appsv1.Deployment) { d.Spec.Replicas = &none })
	for _, lease := range []string{controllers.LeaseController, agentmanagement.LeaseName, controllers.LeaseCleanup, "fleet-workspace-lock"} {
		w.until("it takes "+lease, func() bool { return w.holder(fleet.NamespaceSystem, lease) == "taker" })
	}
	r.stop()
	for _, lease := range []string{controllers.LeaseController, agentmanagement.LeaseName} {
		if who := w.holder(fleet.NamespaceSystem, lease); who != "" {
			w.Errorf("%s was not given back: %q", lease, who)
		}
	}
}

// oursToo: a manager of ours in another namespace is as much in the way; a second
// replica in the same namespace is not, and waits for the leases.
func oursToo(w *world) {
	first := w.start("fleet-controller", "first")
	w.until("it works", func() bool { return w.holder(fleet.NamespaceSystem, agentmanagement.LeaseName) == "first" })
	c := w.pods["fleet-controller"].Containers[0]
	elsewhere := w.begin(c, w.admin(), "elsewhere", "--namespace=fleet-c")
	elsewhere.refused(`"`+fleet.NamespaceSystem+`"`, "first")
	second := w.start("fleet-controller", "second")
	second.says("is held: its role begins when the other has ended")
	first.stop()
	w.until("the second takes over", func() bool { return w.holder(fleet.NamespaceSystem, agentmanagement.LeaseName) == "second" })
	second.stop()
}

// admin is a kubeconfig with all rights.
func (w *world) admin() []byte {
	w.Helper()
	text, err := os.ReadFile(w.hub.Cluster.Kubeconfig())
	w.must(err)
	return text
}

// inPlace: when our chart has upgraded the reference's release, the old pods end
// when the new ones are ready, and hold the leases until then.
func inPlace(w *world) {
	leases := []string{controllers.LeaseController, agentmanagement.LeaseName, controllers.LeaseCleanup}
	for _, name := range leases {
		w.holds(fleet.NamespaceSystem, name, "reference")
	}
	r := w.start("fleet-controller", "upgraded")
	w.until("it is ready", r.ready)
	r.says("lease " + agentmanagement.LeaseName + " is held")
	for _, name := range leases {
		if who := w.holder(fleet.NamespaceSystem, name); who != "reference" {
			w.Errorf("%s was taken away, by %q", name, who)
		}
	}
	w.releases(fleet.NamespaceSystem, leases...)
	for _, name := range leases {
		w.until("it takes "+name, func() bool { return w.holder(fleet.NamespaceSystem, name) == "upgraded" })
	}
	r.stop()
}

// notUpgraded: the settings of another implementation are not for us.
func notUpgraded(w *world) {
	w.config(fleet.NamespaceSystem, map[string]string{fleet.AnnotationVersion: "v0.16.1", fleet.AnnotationImplementation: ""})
	since := time.Now()
	w.start("fleet-controller", "stranger").refused("another implementation", "v0.16.1", "upgrade its releases with the charts")
	if list := w.writes("fleet-controller", since); len(list) > 0 {
		w.Errorf("it wrote before it refused:\n%s", harness.Lines(list))
	}
	r := w.start("fleet-controller", "forced", "--takeover")
	w.until("it works", func() bool { return w.holder(fleet.NamespaceSystem, agentmanagement.LeaseName) == "forced" })
	r.stop()
}
