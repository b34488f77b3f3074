package helm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Each object that is rendered names the file of the bundle that it comes from.
func TestRenderedObjects(t *testing.T) {
	named := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	hook := "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n"
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.x.io}\nspec: {group: x.io, scope: Cluster, names: {kind: A, plural: as}}\n"
	cases := map[string]struct {
		options fleet.BundleDeploymentOptions
		files   map[string]string
		want    []string
	}{
		"Chart": {
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": named("a"), "templates/h.yaml": hook, "crds/c.yaml": crd},
			want:  []string{"a templates/a.yaml", "a.x.io crds/c.yaml", "hook templates/h.yaml"},
		},
		"ChartBelow": {
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "charts/web"}},
			files:   map[string]string{"charts/web/Chart.yaml": renderChart, "charts/web/templates/a.yaml": named("a")},
			want:    []string{"a charts/web/templates/a.yaml"},
		},
		"Manifests": {
			files: map[string]string{"m/a.yaml": named("a"), "templates/b.yaml": named("b")},
			want:  []string{"a m/a.yaml", "b templates/b.yaml"},
		},
		"Kustomization": {
			files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": named("a")},
			want:  []string{"a kustomization.yaml"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := Render(rendered(c.options, c.files), RenderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range r.Objects {
				got = append(got, o.GetName()+" "+o.File)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
