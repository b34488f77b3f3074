package install

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// web is a workload of a bundle.
func web() []string {
	return []string{"web.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "none.invalid/web:1"}]}
`, "config.yaml", harness.ConfigMap("web", "1")}
}

// An agent that moves to another namespace, as the local agent of a standalone
// reference does, takes its releases along: once no agent is left in the old
// namespace, and without restarting a pod. Labels and what releases remember are
// written once.
func TestMove(t *testing.T) {
	t.Parallel()
	hub := harness.NewHub(t, harness.Memory(t, "move"))
	dyn := dynamic.NewForConfigOrDie(hub.Cluster.REST())
	old := harness.NewSiteIn(t, hub, hub, "local", "cattle-fleet-system")
	old.Start()
	old.Order("shop", harness.Order{Files: web()})
	old.Until("the workload is ready", func() bool { return isReady(old, "shop") })
	before := workload(old, dyn)
	old.Stop()

	// The same Cluster, credential and deployments; another namespace.
	moved := old.For(t)
	moved.Namespace = fleet.NamespaceLocalAgent
	moved.Config.Namespace, moved.Config.Scope = moved.Namespace, moved.Namespace
	hub.Namespace(t, moved.Namespace)
	moved.Credential()
	_, err := kube.StoreOf[*corev1.ConfigMap](hub.Admin).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: moved.Namespace, Name: fleet.ConfigMapAgent},
		Data:       map[string]string{registration.KeyAdoptFrom: old.Namespace},
	})
	moved.Must(err)
	replicas(moved, dyn, 1) // of the agent that was: it is still wanted there
	moved.Start()
	moved.Until("it waits for the other agent", func() bool {
		return strings.Contains(readiness(moved, "shop").Message, "still there")
	})
	if diff := cmp.Diff(before, workload(moved, dyn), cmp.AllowUnexported(load{})); diff != "" {
		t.Errorf("something of the other agent's was touched\n%s", diff)
	}

	since := time.Now()
	replicas(moved, dyn, 0)
	set := naming.ObjectSetHash(naming.ObjectSetID("shop", moved.Config.Scope))
	moved.Until("the labels are those of the agent that moved", func() bool { return workload(moved, dyn).set == set && isReady(moved, "shop") })
	after := workload(moved, dyn)
	if before.revision != "1" || after.revision != "1" { // else its pods are others
		t.Errorf("revision %q before and %q after", before.revision, after.revision)
	}
	if diff := cmp.Diff(before.spec, after.spec); diff != "" || before.uid != after.uid {
		t.Errorf("the workload was changed\n%s", diff)
	}
	if list := moved.Removed(since); len(list) > 0 {
		t.Errorf("removed: %v", list)
	}
	if n := revisions(moved); n != 2 {
		t.Errorf("the release was written in %d revisions, want the one of before and one", n)
	}
	moved.Restart() // and once is enough
	moved.Until("it has come to rest", func() bool { return isReady(moved, "shop") })
	if n := revisions(moved); n != 2 {
		t.Errorf("after a restart there are %d revisions", n)
	}
}

// A load is what is to be seen of the workload.
type load struct {
	uid, set string
	spec     any
	revision string // of its pods
}

// workload looks at the workload of the bundle shop.
func workload(s *harness.Site, dyn dynamic.Interface) load {
	s.Helper()
	d, err := dyn.Resource(deployments).Namespace(s.Home("shop")).Get(s.Context(), "web", metav1.GetOptions{})
	s.Must(err)
	return load{
		uid: string(d.GetUID()), set: d.GetLabels()[fleet.LabelObjectSetHash], spec: d.Object["spec"],
		revision: d.GetAnnotations()["deployment.kubernetes.io/revision"],
	}
}

// readiness is the condition Ready of a deployment.
func readiness(s *harness.Site, name string) fleet.Condition {
	s.Helper()
	if c := condition.Find(s.Deployment(name).Status.Conditions, fleet.ConditionReady); c != nil {
		return *c
	}
	return fleet.Condition{}
}

func isReady(s *harness.Site, name string) bool {
	s.Helper()
	return readiness(s, name).Status == corev1.ConditionTrue
}

// revisions are how many the release of the bundle shop has.
func revisions(s *harness.Site) int {
	s.Helper()
	list, err := s.Hub.Client.CoreV1().Secrets(s.Home("shop")).List(s.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	s.Must(err)
	return len(list.Items)
}

// replicas makes the Deployment of the agent that was, or scales it.
func replicas(s *harness.Site, dyn dynamic.Interface, n int) {
	s.Helper()
	client := dyn.Resource(deployments).Namespace(fleet.NamespaceSystem)
	o := &unstructured.Unstructured{}
	s.Must(o.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"fleet-agent"},"spec":{"replicas":%d,
"selector":{"matchLabels":{"app":"fleet-agent"}},"template":{"metadata":{"labels":{"app":"fleet-agent"}},"spec":{"containers":[{"name":"fleet-agent","image":"none.invalid/agent"}]}}}}`, n)))
	_, err := client.Create(s.Context(), o, metav1.CreateOptions{})
	if err != nil {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
		_, err = client.Patch(s.Context(), "fleet-agent", "application/merge-patch+json", patch, metav1.PatchOptions{})
	}
	s.Must(err)
}
