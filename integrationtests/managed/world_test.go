// Package managed tells how Fleets meet in one cluster: an upper manager has an
// agent there, and a lower manager lives there, with an agent of its own. The
// managers are real ones, installed by their charts with Helm and run with the
// rights of their accounts; so are the agents. The audit log of the cluster in
// which they meet tells who wrote what.
package managed

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets stories run at once, whatever the number of processors: they wait
// for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = 90 * time.Second

// checkin is how often agents check in here.
const checkin = time.Second

// A world is some clusters.
type world struct {
	testing.TB
	root testing.TB // outlives parts of the test
}

// in is the same world for a part of the test.
func (w world) in(t testing.TB) world { return world{t, w.root} }

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for something to become true.
func (w world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w, limit, what, f)
}

// startClusters starts control planes side by side.
func (w world) startClusters(names ...string) []*harness.Hub {
	w.Helper()
	binary := harness.Kubernetes(w)
	made := make([]*cluster.Cluster, len(names))
	dir := w.TempDir()
	var all errgroup.Group
	for i, name := range names {
		all.Go(func() (err error) {
			made[i], err = cluster.Start(w.Context(), cluster.Config{Name: name, Dir: filepath.Join(dir, name), Binary: binary})
			return err
		})
	}
	err := all.Wait()
	for _, c := range made {
		if c != nil {
			w.Cleanup(c.Stop)
		}
	}
	w.must(err)
	var hubs []*harness.Hub
	for _, c := range made {
		hubs = append(hubs, harness.ConnectHub(w, c))
	}
	return hubs
}

// helm is Helm for a namespace of a cluster, as its administrator.
func (w world) helm(h *harness.Hub, namespace string) *action.Configuration {
	w.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	path, cache := h.Cluster.Kubeconfig(), w.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &namespace, &cache
	var cfg action.Configuration
	w.must(cfg.Init(flags, namespace, "secret", func(string, ...any) {}))
	return &cfg
}

// install is "helm install --create-namespace" of one of our charts, under its own
// name.
func (w world) install(h *harness.Hub, name, namespace string, values map[string]any) error {
	w.Helper()
	c, err := loader.Load(filepath.Join("..", "..", "charts", name))
	w.must(err)
	do := action.NewInstall(w.helm(h, namespace))
	do.ReleaseName, do.Namespace, do.CreateNamespace = name, namespace, true
	_, err = do.RunWithContext(w.Context(), c, values)
	return err
}

// upgrade is "helm upgrade --reuse-values" of the chart fleet.
func (w world) upgrade(h *harness.Hub, namespace string, values map[string]any) {
	w.Helper()
	c, err := loader.Load(filepath.Join("..", "..", "charts", "fleet"))
	w.must(err)
	do := action.NewUpgrade(w.helm(h, namespace))
	do.Namespace, do.ReuseValues = namespace, true
	_, err = do.RunWithContext(w.Context(), "fleet", c, values)
	w.must(err)
}

// A manager is a Fleet that was installed by its charts in a cluster.
type manager struct {
	world
	hub       *harness.Hub
	namespace string
	halt      func()
}

// newManager installs the charts fleet-crd and fleet. Nothing runs yet.
func (w world) newManager(h *harness.Hub, namespace string, values map[string]any) *manager {
	w.Helper()
	m := &manager{world: w, hub: h, namespace: namespace, halt: func() {}}
	w.must(w.install(h, "fleet-crd", namespace, nil))
	w.until("the kinds are served", func() bool {
		_, err := kube.StoreOf[*fleet.Cluster](h.Admin).List(w.Context(), "", "")
		return err == nil
	})
	all := map[string]any{
		"apiServerURL": h.Cluster.URL(), "apiServerCA": string(h.Cluster.CA()), "agentTLSMode": "strict",
		"agentCheckinInterval": checkin.String(),
	}
	for key, value := range values {
		all[key] = value
	}
	w.must(w.install(h, "fleet", namespace, all))
	h.Namespace(w, fleet.NamespaceDefault)
	w.root.Cleanup(func() { m.halt() })
	return m
}

// connect is the manager's connection, by its own account.
func (m *manager) connect(field string) *kube.Client {
	m.Helper()
	c, err := kube.Connect(kube.Config{
		REST: m.hub.Account(m, m.namespace, "fleet-controller"), UserAgent: field + "/test", FieldManager: field,
	})
	m.must(err)
	return c
}

// run runs the manager as its chart's settings say, in the place of the one that
// runs.
func (m *manager) run() {
	m.Helper()
	m.halt()
	ctx, stop := context.WithCancel(context.Background())
	client := m.connect(fleet.FieldManagerAgentManagement)
	install, err := installation.Ensure(ctx, client, m.namespace)
	m.must(err)
	config, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: m.namespace, Name: fleet.ConfigMapController})
	m.must(err)
	settings, warnings, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		m.Fatal(err, warnings)
	}
	gate := agentmanagement.Config{Namespace: m.namespace, Settings: settings, Installation: install}
	house := agentmanagement.New(gate, client, logs())
	sweeps := agentmanagement.NewCleanup(gate, client, logs())
	cfg := controllers.Default()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = m.namespace, "test", false, install.ID
	cfg.CheckinInterval, cfg.Metrics = checkin, controllers.NewMetrics()
	var all sync.WaitGroup
	all.Go(func() {
		if err := kube.Run(ctx, report, append(house.Parts(), sweeps.Parts()...)...); err != nil {
			m.root.Errorf("agent management of the manager on %s ended: %v", m.hub.Cluster.Name(), err)
		}
	})
	controller := m.connect(fleet.FieldManagerController)
	all.Go(func() {
		if err := controllers.Run(ctx, cfg, controller, logs()); err != nil {
			m.root.Errorf("the controllers of the manager on %s ended: %v", m.hub.Cluster.Name(), err)
		}
	})
	m.halt = func() { stop(); all.Wait(); m.halt = func() {} }
}

// id is the manager's.
func (m *manager) id() string {
	m.Helper()
	c, ok := get[*corev1.ConfigMap](m.world, m.hub, m.namespace, fleet.ConfigMapInstallation)
	if !ok {
		m.Fatal("the manager has no id")
	}
	return c.Labels[fleet.LabelManagerID]
}

func report(loop string, key kube.Key, err error) {
	if !kube.IsConflict(err) {
		logs().Errorf("loop %s, %s: %v", loop, key, err)
	}
}

func logs() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv("FLEET_TEST_LOGS") != "" {
		log.SetOutput(os.Stderr)
	}
	return logrus.NewEntry(log)
}

// kubeconfig is one of an administrator of a cluster, whom its audit log knows by
// a name of its own.
func (w world) kubeconfig(h *harness.Hub, who string) []byte {
	w.Helper()
	rest := h.Account(w, "kube-system", who)
	h.Allow(w, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: who}, "",
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	return harness.Kubeconfig(h.Cluster.URL(), h.Cluster.CA(), rest.BearerToken)
}

// get reads an object of a cluster; false: there is none.
func get[P kube.Object](w world, h *harness.Hub, namespace, name string) (P, bool) {
	w.Helper()
	out, err := kube.StoreOf[P](h.Admin).Get(context.WithoutCancel(w.Context()), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		w.Fatal(err)
	}
	return out, err == nil
}

func create[P kube.Object](w world, h *harness.Hub, obj P) P {
	w.Helper()
	out, err := kube.StoreOf[P](h.Admin).Create(w.Context(), obj)
	w.must(err)
	return out
}

// change changes an object as administrator, and tries again where somebody else
// was faster.
func change[P kube.Object](w world, h *harness.Hub, namespace, name string, f func(P)) {
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
