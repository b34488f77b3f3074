package pods

import (
	"fmt"
	"path/filepath"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// helmLimit is how long Helm waits for what it has installed to be ready.
const helmLimit = timeout

// helm is Helm for the system namespace of a site, with the administrator's rights.
func (w *world) helm(s *site) *action.Configuration {
	w.Helper()
	settings := cli.New()
	settings.KubeConfig = s.cluster.Kubeconfig()
	settings.SetNamespace(fleet.NamespaceSystem)
	var cfg action.Configuration
	w.must(cfg.Init(settings.RESTClientGetter(), fleet.NamespaceSystem, "secret", func(string, ...any) {}))
	return &cfg
}

func (w *world) chart(name string) *chart.Chart {
	w.Helper()
	c, err := loader.Load(filepath.Join(w.charts, name))
	w.must(err)
	return c
}

// install is "helm install --wait --create-namespace" of one of our charts, as the
// release of its name.
func (w *world) install(s *site, name string, values map[string]any) {
	w.Helper()
	do := action.NewInstall(w.helm(s))
	do.ReleaseName, do.Namespace, do.CreateNamespace = name, fleet.NamespaceSystem, true
	do.Wait, do.Timeout = true, helmLimit
	if _, err := do.RunWithContext(w.Context(), w.chart(name), values); err != nil {
		w.Fatalf("helm install %s on %s: %v", name, s.name, err)
	}
}

// upgrade is "helm upgrade --reuse-values --wait".
func (w *world) upgrade(s *site, name string, values map[string]any) {
	w.Helper()
	w.upgradeWith(s, name, values, false)
}

// upgradeWith is upgrade, with "--take-ownership" where owner is true.
func (w *world) upgradeWith(s *site, name string, values map[string]any, owner bool) {
	w.Helper()
	do := action.NewUpgrade(w.helm(s))
	do.TakeOwnership = owner
	do.Namespace, do.ReuseValues, do.Wait, do.Timeout = fleet.NamespaceSystem, true, true, helmLimit
	if _, err := do.RunWithContext(w.Context(), name, w.chart(name), values); err != nil {
		w.Fatalf("helm upgrade %s on %s: %v", name, s.name, err)
	}
}

// uninstall is "helm uninstall --wait".
func (w *world) uninstall(s *site, name string) {
	w.Helper()
	do := action.NewUninstall(w.helm(s))
	do.Wait, do.Timeout = true, helmLimit
	if _, err := do.Run(name); err != nil {
		w.Fatalf("helm uninstall %s on %s: %v", name, s.name, err)
	}
}

// managerValues are the values of the chart fleet.
func (w *world) managerValues() map[string]any {
	return map[string]any{
		"apiServerURL":         w.local.cluster.URL(),
		"apiServerCA":          string(w.local.cluster.CA()),
		"agentTLSMode":         "strict",
		"agentCheckinInterval": "10s",
		"image":                imageOf(before),
		"agentImage":           imageOf(before),
		"bootstrap":            map[string]any{"repo": w.git.URL(repository), "branch": "main", "paths": "shop"},
	}
}

// imageOf is a version of our images, as a value of our charts.
func imageOf(version string) map[string]any { return map[string]any{"tag": version} }

// text is a value for people.
func text(v any) string { return fmt.Sprint(v) }
