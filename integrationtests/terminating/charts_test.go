package terminating

import (
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// chartValues are those of both charts.
var chartValues = map[string]map[string]any{
	"fleet-crd": {"keep": false},
	"fleet":     {"bootstrap": map[string]any{"enabled": false}},
}

// A person uninstalls both charts, the kinds included, in one order or the other: every
// workload stays, also when everything is installed again and adopts it.
func TestChartsUninstalled(t *testing.T) {
	t.Parallel()
	all := newWorld(t, func(h *harness.Hub) { installCharts(t, h) })
	for _, order := range [][]string{{"fleet-crd", "fleet"}, {"fleet", "fleet-crd"}} {
		t.Run(order[0]+"First", func(t *testing.T) {
			w := all.in(t)
			defer func() { all.tokens, all.down = w.tokens, w.down }()
			before := w.objects()
			for _, name := range order {
				if name == "fleet" {
					w.stop() // its pods go with it
				}
				uninstallChart(t, w.hub, name)
			}
			w.unharmed(before)
			installCharts(t, w.hub)
			w.start()
			w.kindsAgain() // those that have gone since Helm adopted them
			upgradeChart(t, w.hub, "fleet-crd")
			harness.KindsServed(t, w.hub.Admin)
			w.unharmed(before)
			w.fleet()
			w.ready()
			w.unharmed(before)
		})
	}
}

// helmAt is Helm in the namespace of both charts.
func helmAt(t *testing.T, hub *harness.Hub) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	path, namespace, cache := hub.Cluster.Kubeconfig(), fleet.NamespaceSystem, t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &namespace, &cache
	var cfg action.Configuration
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

// installCharts installs the kinds first. Helm adopts those that are being deleted.
func installCharts(t *testing.T, hub *harness.Hub) {
	t.Helper()
	for _, name := range []string{"fleet-crd", "fleet"} {
		in := action.NewInstall(helmAt(t, hub))
		in.ReleaseName, in.Namespace, in.CreateNamespace = name, fleet.NamespaceSystem, true
		if _, err := in.RunWithContext(t.Context(), load(t, name), chartValues[name]); err != nil {
			t.Fatalf("install %s: %v", name, err)
		}
		if name == "fleet-crd" {
			harness.KindsServed(t, hub.Admin)
		}
	}
}

func uninstallChart(t *testing.T, hub *harness.Hub, name string) {
	t.Helper()
	if _, err := action.NewUninstall(helmAt(t, hub)).Run(name); err != nil {
		t.Fatalf("uninstall %s: %v", name, err)
	}
}

func upgradeChart(t *testing.T, hub *harness.Hub, name string) {
	t.Helper()
	up := action.NewUpgrade(helmAt(t, hub))
	up.Namespace = fleet.NamespaceSystem
	if _, err := up.RunWithContext(t.Context(), name, load(t, name), chartValues[name]); err != nil {
		t.Fatalf("upgrade %s: %v", name, err)
	}
}

func load(t *testing.T, name string) *chart.Chart {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(filepath.Join(root, "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
