package workspace

import (
	"io"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Names of what most tests work on.
const (
	team       = "team"
	generated  = "c-m-abcd1234" // a management Cluster whose provisioning Cluster comes first
	imported   = "c-abcde"      // a management Cluster that comes first
	kubeconfig = "kubeconfig"
)

// Kinds as the API server has them.
var (
	fleetClusters        = fleet.GroupVersion.WithResource("clusters")
	managementClusters   = management.GroupVersion.WithResource("clusters")
	provisioningClusters = provisioning.GroupVersion.WithResource("clusters")
	workspaces           = management.GroupVersion.WithResource("fleetworkspaces")
	namespaces           = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// start returns what a process runs.
func start(mode plan.Mode) func(*kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		log := logrus.New()
		log.SetOutput(io.Discard)
		return New(Config{Mode: mode}, c, logrus.NewEntry(log)).Runnables()
	}
}

// install makes CustomResourceDefinitions: those that the manager requires, that of
// workspaces, and others.
func install(w *looptest.World, others ...string) {
	for _, name := range append(append(append([]string{}, kinds...), kindWorkspace), others...) {
		looptest.Make(w, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true, Storage: true}}},
		})
	}
}

// makeSpace makes a workspace with a namespace that was made for it.
func makeSpace(w *looptest.World, name string) {
	makeNamespace(w, name)
	looptest.Make(w, &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{plan.Finalizer}}})
}

// makeNamespace makes a namespace as the manager makes it for a workspace.
func makeNamespace(w *looptest.World, name string) {
	looptest.Make(w, plan.Namespace(&management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name}}, plan.Create))
}

func makeManagement(w *looptest.World, name, workspace string, annotations map[string]string) {
	looptest.Make(w, &management.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       management.ClusterSpec{DisplayName: "site", FleetWorkspaceName: workspace},
		Status:     management.ClusterStatus{Conditions: []management.Condition{{Type: management.ConditionReady, Status: corev1.ConditionTrue}}},
	})
}

// makeProvisioning makes a provisioning Cluster with a kubeconfig.
func makeProvisioning(w *looptest.World, namespace, name, of string, change func(*provisioning.Cluster)) {
	p := &provisioning.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if change != nil {
		change(p)
	}
	looptest.Make(w, p)
	looptest.Change(w, namespace, name, func(p *provisioning.Cluster) {
		p.Status.ClusterName, p.Status.ClientSecretName = of, kubeconfig
	})
}

// originOf marks a management Cluster as made of a provisioning Cluster.
func originOf(namespace, name string) map[string]string {
	return map[string]string{
		"objectset.rio.cattle.io/owner-gvk":       provisioning.GroupVersion.String() + ", Kind=Cluster",
		"objectset.rio.cattle.io/owner-namespace": namespace, "objectset.rio.cattle.io/owner-name": name,
	}
}

// late runs f while the process does not hear of changes of a kind, and lets some time
// pass.
func late(w *looptest.World, kind schema.GroupVersionResource, d time.Duration, f func()) {
	w.Helper()
	release := w.Server.HoldWatches(kind)
	defer release()
	f()
	w.Pass(d)
}
