package imports

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// bundle makes a Bundle with one ConfigMap for a Cluster.
func (w *world) bundle(name, value string) {
	w.Helper()
	harness.Make(w, w.hub, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "app-" + name},
			Resources:               []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", value)}},
			Targets:                 []fleet.BundleTarget{{ClusterName: name}},
		},
	})
}

// rewrite gives the ConfigMap of a Bundle another value.
func (w *world) rewrite(name, value string) {
	w.Helper()
	harness.Edit(w, w.hub, fleet.NamespaceDefault, name, func(b *fleet.Bundle) {
		b.Spec.Resources[0].Content = harness.ConfigMap("a", value)
	})
}

// value waits for a value of a Bundle's ConfigMap, and returns its UID.
func (w *world) value(h *harness.Hub, name, want string) string {
	w.Helper()
	uid := ""
	w.until("the bundle "+name+" is deployed with "+want, func() bool {
		cm, ok := harness.Read[*corev1.ConfigMap](w, h, "app-"+name, "a")
		if ok {
			uid = string(cm.UID)
		}
		return ok && cm.Data["k"] == want
	})
	return uid
}

// ready waits until a Bundle is Ready.
func (w *world) ready(name string) {
	w.Helper()
	w.until("the Bundle "+name+" is Ready", func() bool {
		b, there := harness.Read[*fleet.Bundle](w, w.hub, fleet.NamespaceDefault, name)
		return there && b.Status.Summary.Ready == 1 && b.Status.Summary.DesiredReady == 1
	})
}

// registrations are the granted requests of a Cluster, by name.
func (w *world) registrations(name string) map[string]*fleet.ClusterRegistration {
	w.Helper()
	list, err := kube.StoreOf[*fleet.ClusterRegistration](w.hub.Admin).List(w.Context(), fleet.NamespaceDefault, "")
	w.must(err)
	out := map[string]*fleet.ClusterRegistration{}
	for _, r := range list {
		if r.Status.Granted && r.Status.ClusterName == name {
			out[r.Name] = r
		}
	}
	return out
}

// registeredAgain waits for a registration that is none of those that are known.
func (w *world) registeredAgain(name string, known map[string]*fleet.ClusterRegistration) {
	w.Helper()
	w.until("the agent of "+name+" registers again", func() bool {
		for r := range w.registrations(name) {
			if known[r] == nil {
				return true
			}
		}
		return false
	})
}
