package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// deployment is one of files without text, by name.
func deployment(o fleet.BundleDeploymentOptions, names ...string) Deployment {
	m := content.Manifest{}
	for _, n := range names {
		text := "a: b\n"
		if strings.HasSuffix(n, chartFile) {
			text = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
		}
		m.Resources = append(m.Resources, fleet.BundleResource{Name: n, Content: text})
	}
	return Deployment{Content: m, Options: o, Memory: release.Record{Owner: release.Owner{BundleID: "app"}}}
}

func TestPartsOf(t *testing.T) {
	helm := func(chart, repo, version string) fleet.BundleDeploymentOptions {
		return fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: chart, Repo: repo, Version: version}}
	}
	downloaded := naming.ChartDir("web", "https://charts.example", "1.0.0") + "/"
	cases := map[string]struct {
		why       string
		options   fleet.BundleDeploymentOptions
		files     []string
		chart     string   // name of the chart
		templates []string // of the chart
		raw       []string
		kustomize string
	}{
		"Plain": {
			why:   "manifests stay as they are, templates are rendered, the rest is left out",
			files: []string{"a.yaml", "dir/b.yml", "c.json", "README.md", "fleet.yaml", "templates/t.yaml"},
			chart: "app", templates: []string{"templates/t.yaml"}, raw: []string{"a.yaml", "dir/b.yml", "c.json"},
		},
		"Overlays": {
			why:     "an overlay that is asked for comes to the manifests, the others are left out",
			options: fleet.BundleDeploymentOptions{YAML: &fleet.YAMLOptions{Overlays: []string{"prod"}}},
			files:   []string{"a.yaml", "overlays/prod/b.yaml", "overlays/prod/templates/t.yaml", "overlays/dev/c.yaml"},
			chart:   "app", templates: []string{"templates/t.yaml"}, raw: []string{"a.yaml", "b.yaml"},
		},
		"Nameless": {
			why:   "what has no name is a manifest",
			files: []string{"a.yaml", ""},
			chart: "app", raw: []string{"a.yaml", "manifests/file001.yaml"},
		},
		"Nested": {
			why:   "a directory that is a bundle or a chart of its own is not part of this one",
			files: []string{"a.yaml", "sub/fleet.yaml", "sub/x.yaml", "chart/Chart.yaml", "chart/templates/x.yaml", "subway.yaml"},
			chart: "app", raw: []string{"a.yaml", "subway.yaml"},
		},
		"ChartAtRoot": {
			why:   "a Chart.yaml at the root makes the bundle a chart",
			files: []string{"Chart.yaml", "templates/a.yaml", "values.yaml", "x.yaml"},
			chart: "web", templates: []string{"templates/a.yaml"},
		},
		"ChartInDirectory": {
			why: "helm.chart names the directory", options: helm("charts/web", "", ""),
			files: []string{"charts/web/Chart.yaml", "charts/web/templates/a.yaml", "other.yaml"},
			chart: "web", templates: []string{"templates/a.yaml"},
		},
		"ChartDownloaded": {
			why: "a chart that was downloaded, with a folder of its name around it", options: helm("web", "https://charts.example", "1.0.0"),
			files: []string{downloaded + "web/Chart.yaml", downloaded + "web/templates/a.yaml", downloaded + "web/charts/sub/Chart.yaml"},
			chart: "web", templates: []string{"templates/a.yaml"},
		},
		"Kustomize": {
			why:   "a kustomization takes all files",
			files: []string{"kustomization.yaml", "a.yaml"}, chart: "app", kustomize: ".",
		},
		"KustomizeDir": {
			why:     "in the directory that is named",
			options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "overlays/prod"}},
			files:   []string{"base/kustomization.yaml", "overlays/prod/kustomization.yaml"}, chart: "app", kustomize: "overlays/prod",
		},
		"ChartAndKustomize": {
			why:   "the kustomization runs over what the chart renders",
			files: []string{"Chart.yaml", "templates/a.yaml", "kustomization.yaml"},
			chart: "web", templates: []string{"templates/a.yaml"}, kustomize: ".",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := partsOf(deployment(c.options, c.files...))
			if err != nil {
				t.Fatal(err)
			}
			var templates, raw []string
			for _, f := range p.chart.Templates {
				templates = append(templates, f.Name)
			}
			for _, f := range p.raw {
				raw = append(raw, f.name)
			}
			slices.Sort(raw)
			got := []any{p.chart.Name(), templates, raw, p.kustomize}
			if diff := cmp.Diff([]any{c.chart, c.templates, sorted(c.raw), c.kustomize}, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

func TestPartsOfRefuses(t *testing.T) {
	bad := deployment(fleet.BundleDeploymentOptions{}, "a.yaml")
	bad.Content.Resources[0].Encoding = "base64+gz"
	if _, err := partsOf(bad); reconcile.ReasonOf(err) != release.ReasonBadContent {
		t.Errorf("got %v", err)
	}
}

func TestIDOf(t *testing.T) {
	cases := map[string]struct {
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"Default":   {fleet.BundleDeploymentOptions{}, "default/app"},
		"Namespace": {fleet.BundleDeploymentOptions{DefaultNamespace: "a", TargetNamespace: "b"}, "b/app"},
		"Named":     {fleet.BundleDeploymentOptions{DefaultNamespace: "a", Helm: &fleet.HelmOptions{ReleaseName: "x"}}, "a/x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := IDOf("app", c.options).String(); got != c.want {
				t.Errorf("want %s, got %s", c.want, got)
			}
		})
	}
}
