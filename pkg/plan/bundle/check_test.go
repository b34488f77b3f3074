package bundle

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

func TestChecks(t *testing.T) {
	const bad = "a: b\n\tc: d\n"
	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
	}{
		"Manifest": {
			tree:  map[string]string{"d/cm.yaml": configMap + "---\na: 1\nb:\n  c: [\n"},
			found: []string{"d/cm.yaml:7:1: error: YAML: did not find expected node content [yaml]"},
		},
		"Tab":       {tree: map[string]string{"d/cm.yaml": bad}, found: []string{"d/cm.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"}},
		"Templates": {why: "they are no YAML before they are rendered", tree: map[string]string{"d/a.yaml": configMap, "d/templates/x.yaml": "{{ if }}"}},
		"NotForUs":  {why: "charts and bundles further down are not deployed by this one", tree: map[string]string{"d/a.yaml": configMap, "d/c/Chart.yaml": "name: c", "d/c/x.yaml": bad, "d/e/fleet.yaml": "", "d/e/x.yaml": bad}},
		"Chart":     {why: "templates of a chart are not parsed", tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/x.yaml": "{{ }}", "d/values.yaml": "a: 1"}},
		"ChartFiles": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": bad},
			found: []string{"d/values.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"},
		},
		"Kustomization": {
			tree: map[string]string{
				"d/kustomization.yaml": "resources: [base, cm.yaml]\nconfigMapGenerator:\n- name: x\n  files: [any.yaml]\n", "d/any.yaml": "{{ free }} text: [",
				"d/base/kustomization.yaml": "resources: [x.yaml]", "d/base/x.yaml": bad, "d/cm.yaml": configMap,
			},
			found: []string{"d/base/x.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"},
		},
		"KustomizationOfATarget": {
			tree: map[string]string{
				"d/fleet.yaml":                         "targetCustomizations:\n- name: prod\n  clusterName: x\n  kustomize: {dir: overlays/prod}\n",
				"d/overlays/prod/kustomization.yaml":   "resources: [../../base]",
				"d/base/kustomization.yaml":            "resources: [\n",
				"d/overlays/other/not-a-manifest.yaml": bad,
			},
			found: []string{"d/base/kustomization.yaml:1:1: error: YAML: did not find expected node content [yaml]"},
		},
		"OverlayWithoutFiles": {
			why: "a misspelt overlay would be nothing, without a word",
			tree: map[string]string{
				"d/fleet.yaml": "targetCustomizations:\n- clusterName: a\n  yaml: {overlays: [scale3, scale]}\n", "d/a.yaml": configMap,
				"d/overlays/scale3/a_patch.yaml": "data: {x: y}",
			},
			found: []string{`d/fleet.yaml:3:29: warning: overlay "scale" changes nothing: there is no file in overlays/scale [file]`},
		},
		"NoSuchChart": {
			why: "each distinct chart is said once, where it stands",
			tree: map[string]string{
				"d/fleet.yaml": "targetCustomizations:\n- clusterName: a\n  helm: {chart: wob}\n- clusterName: b\n  helm: {chart: wob}\n", "d/a.yaml": configMap,
				"d/web/Chart.yaml": "name: web",
			},
			found: []string{`d/fleet.yaml:3:17: error: helm.chart "wob" is no directory here, and nothing that can be downloaded [chart]`},
		},
		"ChartNextDoor": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ../charts/web}\n", "d/a.yaml": configMap, "charts/web/Chart.yaml": "name: web"},
			found: []string{`d/fleet.yaml:1:15: error: helm.chart "../charts/web" is outside of the bundle's directory [outside]`},
		},
		"LocalChart":         {tree: map[string]string{"d/fleet.yaml": "helm: {chart: ./web}\n", "d/web/Chart.yaml": "name: web", "d/web/templates/a.yaml": "{{"}},
		"DependencyDisabled": {tree: map[string]string{"d/fleet.yaml": "helm: {disableDependencyUpdate: true}", "d/Chart.yaml": "name: c\ndependencies:\n- name: redis\n"}},
		"ValuesFileMissing": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  chart: .\n  valuesFiles:\n  - values-prod.yaml\n", "d/Chart.yaml": "name: c", "d/values-prod.yml": "a: 1"},
			found: []string{`d/fleet.yaml:4:5: error: values file "values-prod.yaml" does not exist [file]`},
		},
		"ValuesFileOutside": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [../../etc/passwd]}\n", "d/Chart.yaml": "name: c"},
			found: []string{`d/fleet.yaml:1:32: error: values file "../../etc/passwd" is not in the repository [outside]`},
		},
		"ValuesFileBroken": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [v.yaml]}\n", "d/Chart.yaml": "name: c", "d/v.yaml": bad},
			found: []string{"d/v.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo"})
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			broken := slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Severity == finding.Error })
			if (r.Bundle == nil) != broken {
				t.Errorf("want a bundle only without errors, got %v", r.Bundle)
			}
		})
	}
}

func TestValuesFiles(t *testing.T) {
	r := Assemble(files(map[string]string{
		"common/all.yaml": "a: common\nnested: {x: 1, list: [1]}\n",
		"d/fleet.yaml": `helm:
  chart: .
  values: {a: inline, nested: {z: 2, list: [9, 9]}}
  valuesFiles: [../common/all.yaml, values/prod.yaml]
targetCustomizations:
- name: eu
  clusterName: c
  helm: {values: {b: 1}, valuesFiles: [eu.yaml]}
`,
		"d/Chart.yaml": "name: c", "d/values/prod.yaml": "a: prod\n", "d/eu.yaml": "b: 2\n", "d/prod.yaml": "skipped, as in the reference",
	}), Dir{Path: "d"}, Options{Repo: "repo"})
	if r.Bundle == nil {
		t.Fatal(r.Findings)
	}
	want := map[string]any{"a": "prod", "nested": map[string]any{"x": 1.0, "z": 2.0, "list": []any{1.0}}}
	if diff := cmp.Diff(want, r.Bundle.Spec.Helm.Values.Data); diff != "" {
		t.Errorf("files go over values, in order; maps merge, lists do not\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"b": 2.0}, r.Bundle.Spec.Targets[0].Helm.Values.Data); diff != "" {
		t.Error(diff)
	}
	if got := r.Bundle.Spec.Targets[0].Helm.Chart; got != "." {
		t.Errorf("the target takes over the chart, got %q", got)
	}
	if diff := cmp.Diff([]string{"Chart.yaml"}, names(r.Bundle)); diff != "" {
		t.Errorf("files of values are no resources\n%s", diff)
	}
}
