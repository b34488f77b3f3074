package agents_test

import (
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// installChart installs one of the charts as Helm does.
func installChart(t *testing.T, c harness.ControlPlane, name, namespace string, values map[string]any) {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	path, cache := c.Kubeconfig(), t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &namespace, &cache
	var cfg action.Configuration
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	ch, err := loader.Load(filepath.Join("..", "..", "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, namespace, true
	if _, err := install.RunWithContext(t.Context(), ch, values); err != nil {
		t.Fatalf("install chart %s: %v", name, err)
	}
}
