// Package imports tests how the manager installs agents through kubeconfigs: with
// the real manager, which has the rights of the chart, real agents, and several
// real API servers, whose audit logs record who wrote what.
package imports

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = harness.Timeout

// importer is the account whose kubeconfigs the manager is given.
const importer = "importer"

// A world is a manager in a cluster of its own, and some more clusters.
type world struct {
	testing.TB
	hub            *harness.Hub
	down           []*harness.Hub
	managerProcess *harness.ManagerProcess // agent management, and the controllers that say whether agents check in
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	hubs := harness.MemoryHubs(t, append([]string{"management"}, names...)...)
	w := &world{TB: t, hub: hubs[0], down: hubs[1:], managerProcess: &harness.ManagerProcess{Hub: hubs[0], Beside: controllersToo}}
	harness.InstallCRDs(t, w.hub.Admin)
	w.managerProcess.Settings = registration.Settings{
		AgentImage: "fleet-agent:v1", AgentImagePullPolicy: "IfNotPresent",
		APIServerURL: w.hub.Cluster.URL(), APIServerCA: w.hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
		// An agent of a busy machine must not be missed: who is not online when it gets new
		// terms does not stop the others.
		AgentCheckinInterval: 20 * time.Second, Reclaim: registration.ReclaimAllow, AgentsUnmanaged: true,
	}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		w.hub.Namespace(t, name)
	}
	w.hub.Rights(t, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	w.managerProcess.Run(t)
	t.Cleanup(func() { w.managerProcess.Halt(t) })
	return w
}

// controllersToo are the other half of the manager.
func controllersToo(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error {
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = fleet.NamespaceSystem, "test", false, managerID
	cfg.CheckinInterval, cfg.Workers, cfg.Metrics = 10*time.Second, 4, controllers.NewMetrics()
	return controllers.Run(ctx, cfg, c, log)
}

// again starts the manager again, with other settings.
func (w *world) again(change func(*registration.Settings)) {
	w.Helper()
	w.managerProcess.Halt(w)
	change(&w.managerProcess.Settings)
	w.managerProcess.Run(w)
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for something to become true.
func (w *world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w, limit, what, f)
}

// secret makes a kubeconfig's Secret.
func (w *world) secret(name string, kubeconfig []byte) {
	w.Helper()
	harness.Make(w, w.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": kubeconfig},
	})
}

// cluster makes a Cluster that names the Secret of its name, with an agent in a
// namespace of its own.
func (w *world) cluster(name string, more ...func(*fleet.Cluster)) {
	w.Helper()
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name, Labels: map[string]string{"test": name}},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig", AgentNamespace: "agent-" + name},
	}
	for _, f := range more {
		f(c)
	}
	harness.Make(w, w.hub, c)
}

func (w *world) read(name string) *fleet.Cluster {
	w.Helper()
	c, ok := harness.Read[*fleet.Cluster](w, w.hub, fleet.NamespaceDefault, name)
	if !ok {
		w.Fatalf("Cluster %s is gone", name)
	}
	return c
}

// imported waits for the condition Imported of a Cluster, and returns its message.
func (w *world) imported(name string, want corev1.ConditionStatus, reason string) string {
	w.Helper()
	var last *fleet.Condition
	defer func() {
		if w.Failed() {
			w.Logf("Imported of %s: %+v", name, last)
		}
	}()
	w.until("Cluster "+name+" is Imported="+string(want)+" "+reason, func() bool {
		last = condition.Find(w.read(name).Status.Conditions, fleet.ConditionImported)
		return last != nil && last.Status == want && last.Reason == reason
	})
	return last.Message
}

// installed waits until the agent of a Cluster is installed.
func (w *world) installed(name string) {
	w.Helper()
	w.imported(name, corev1.ConditionTrue, "")
}
