// Package imports tells how the manager installs agents through kubeconfigs: with
// the real manager, which has the rights of the chart, real agents, and several
// real API servers, whose audit logs tell who wrote what.
package imports

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets many stories run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = 40 * time.Second

// importer is the account whose kubeconfigs the manager is given.
const importer = "importer"

// A world is a manager in a cluster of its own, and some more clusters.
type world struct {
	testing.TB
	hub  *harness.Hub
	down []*harness.Hub
	gate *harness.Gate // agent management, and the controllers that say whether agents check in
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	hubs := startClusters(t, append([]string{"management"}, names...)...)
	w := &world{TB: t, hub: hubs[0], down: hubs[1:], gate: &harness.Gate{Hub: hubs[0], Beside: controllersToo}}
	harness.InstallCRDs(t, w.hub.Admin)
	w.gate.Settings = registration.Settings{
		AgentImage: "fleet-agent:v1", AgentImagePullPolicy: "IfNotPresent",
		APIServerURL: w.hub.Cluster.URL(), APIServerCA: w.hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimAllow, AgentsUnmanaged: true,
	}
	for _, name := range []string{fleet.NamespaceSystem, fleet.NamespaceDefault} {
		w.hub.Namespace(t, name)
	}
	w.hub.Rights(t, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	w.gate.Run(t)
	t.Cleanup(func() { w.gate.Halt(t) })
	return w
}

// startClusters starts control planes side by side.
func startClusters(t *testing.T, names ...string) []*harness.Hub {
	t.Helper()
	binary := harness.Kubernetes(t)
	made := make([]*cluster.Cluster, len(names))
	dir := t.TempDir()
	var all errgroup.Group
	for i, name := range names {
		all.Go(func() (err error) {
			made[i], err = cluster.Start(t.Context(), cluster.Config{Name: name, Dir: filepath.Join(dir, name), Binary: binary})
			return err
		})
	}
	err := all.Wait()
	for _, c := range made {
		if c != nil {
			t.Cleanup(c.Stop)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var hubs []*harness.Hub
	for _, c := range made {
		hubs = append(hubs, harness.ConnectHub(t, c))
	}
	return hubs
}

// controllersToo are the other half of the manager.
func controllersToo(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error {
	cfg := controllers.Default()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = fleet.NamespaceSystem, "test", false, managerID
	cfg.CheckinInterval, cfg.Workers, cfg.Metrics = 10*time.Second, 4, controllers.NewMetrics()
	return controllers.Run(ctx, cfg, c, log)
}

// again starts the manager again, with other settings.
func (w *world) again(change func(*registration.Settings)) {
	w.Helper()
	w.gate.Halt(w)
	change(&w.gate.Settings)
	w.gate.Run(w)
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

// get reads an object of a cluster; false: there is none.
func get[P kube.Object](w *world, h *harness.Hub, namespace, name string) (P, bool) {
	w.Helper()
	out, err := kube.StoreOf[P](h.Admin).Get(context.WithoutCancel(w.Context()), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		w.Fatal(err)
	}
	return out, err == nil
}

func create[P kube.Object](w *world, h *harness.Hub, obj P) P {
	w.Helper()
	out, err := kube.StoreOf[P](h.Admin).Create(w.Context(), obj)
	w.must(err)
	return out
}

// change changes an object as administrator, and tries again where somebody else
// was faster.
func change[P kube.Object](w *world, h *harness.Hub, namespace, name string, f func(P)) {
	w.Helper()
	store := kube.StoreOf[P](h.Admin)
	for {
		old, err := store.Get(w.Context(), kube.Key{Namespace: namespace, Name: name})
		w.must(err)
		changed, ok := old.DeepCopyObject().(P)
		if !ok {
			w.Fatalf("the copy of a %T is a %T", old, changed)
		}
		f(changed)
		if _, err = store.Patch(w.Context(), old, changed); !kube.IsConflict(err) {
			w.must(err)
			return
		}
	}
}

// kubeconfig is one of an administrator of a cluster, whom its audit log knows by
// a name of its own.
func (w *world) kubeconfig(h *harness.Hub, who string) []byte {
	w.Helper()
	rest := h.Account(w, "kube-system", who)
	h.Allow(w, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: who}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	return harness.Kubeconfig(h.Cluster.URL(), h.Cluster.CA(), rest.BearerToken)
}

// secret makes a kubeconfig's Secret.
func (w *world) secret(name string, kubeconfig []byte) {
	w.Helper()
	create(w, w.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": kubeconfig},
	})
}

// cluster makes a Cluster that names the Secret of its name, with an agent in a
// namespace of its own.
func (w *world) cluster(name string, more ...func(*fleet.Cluster)) {
	w.Helper()
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name, Labels: map[string]string{"story": name}},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig", AgentNamespace: "agent-" + name},
	}
	for _, f := range more {
		f(c)
	}
	create(w, w.hub, c)
}

func (w *world) read(name string) *fleet.Cluster {
	w.Helper()
	c, ok := get[*fleet.Cluster](w, w.hub, fleet.NamespaceDefault, name)
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
	w.imported(name, corev1.ConditionTrue, fleet.ReasonSucceeded)
}
