// Package managed tests how Fleets meet in one cluster: an upper manager has an
// agent there, and a lower manager lives there, with an agent of its own. The
// managers are real ones, installed by their charts with Helm and run with the
// rights of their accounts; so are the agents. The clusters are API servers in
// memory, which record who wrote what, but for those of TestThreeTiers.
package managed

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestMain lets tests run at once, whatever the number of processors: they wait
// for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// limit is how long something may take to happen.
const limit = harness.Timeout

// checkin is how often agents check in here, and expected how often the managers expect
// them to: a manager writes that an agent is Offline after three times that, and none is
// to be Offline because the machine is busy with something else.
const (
	checkin  = time.Second
	expected = 10 * time.Second
)

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
	harness.KindsServed(w, h.Admin)
	all := map[string]any{
		"apiServerURL": h.Cluster.URL(), "apiServerCA": string(h.Cluster.CA()), "agentTLSMode": "strict",
		"agentCheckinInterval": expected.String(),
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
	install := harness.InstalledIn(m, client, m.namespace)
	config, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: m.namespace, Name: fleet.ConfigMapController})
	m.must(err)
	settings, warnings, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		m.Fatal(err, warnings)
	}
	managerProcess := agentmanagement.Config{Addresses: address.WithLoopback(), Namespace: m.namespace, Settings: settings, Installation: install}
	mgr := agentmanagement.New(managerProcess, client, logs())
	sweeps := agentmanagement.NewCleanup(managerProcess, client, logs())
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = m.namespace, "test", false, install.ID
	cfg.CheckinInterval, cfg.Metrics = expected, controllers.NewMetrics()
	var all sync.WaitGroup
	all.Go(func() {
		if err := kube.Run(ctx, report, append(mgr.Runnables(), sweeps.Runnables()...)...); err != nil {
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
	c, ok := harness.Read[*corev1.ConfigMap](m.world, m.hub, m.namespace, fleet.ConfigMapInstallation)
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
	return logrus.NewEntry(harness.Logger())
}
