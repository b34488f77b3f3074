package bundle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// unusedChart returns the findings of a chart in a directory of a plain bundle.
func unusedChart(bundle, dir string) string {
	return fmt.Sprintf("%s/%s/Chart.yaml:1:1: warning: the chart in %s is not used: it belongs to the bundle of the directory above, which does not name it [not-read]", bundle, dir, dir)
}

func TestChecks(t *testing.T) {
	const bad = "a: b\n\tc: d\n"
	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
	}{
		"Manifest": {
			tree:  map[string]string{"d/cm.yaml": configMap + "---\na: 1\nb:\n  c: [\n"},
			found: []string{"d/cm.yaml:7:1: error: YAML: probably a bracket is opened and not closed, or closed and not opened (did not find expected node content) [yaml]"},
		},
		"Tab":       {tree: map[string]string{"d/cm.yaml": bad}, found: []string{"d/cm.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"}},
		"Templates": {why: "they are no YAML before they are rendered", tree: map[string]string{"d/a.yaml": configMap, "d/templates/x.yaml": "a: [ {{ .Release.Name }}"}},
		"NotForUs":  {why: "charts and bundles further down are not deployed by this one", tree: map[string]string{"d/a.yaml": configMap, "d/c/Chart.yaml": "name: c", "d/c/x.yaml": bad, "d/e/fleet.yaml": "", "d/e/x.yaml": bad}, found: []string{unusedChart("d", "c")}},
		"KustomizationBelow": {
			why:   "the bundle above is plain: its kustomization is not run",
			tree:  map[string]string{"d/a.yaml": configMap, "d/k/kustomization.yaml": "resources: [x.yaml]\nnamePrefix: p-\n", "d/k/x.yaml": strings.Replace(configMap, "name: a", "name: b", 1)},
			found: []string{"d/k/kustomization.yaml:1:1: warning: the kustomization in k is not used: it belongs to the bundle of the directory above, which does not name it [not-read]"},
		},
		"BundlesBelow": {
			why:  "they are bundles of their own",
			tree: map[string]string{"d/a.yaml": configMap, "d/k/kustomization.yaml": "resources: []\n", "d/k/fleet.yaml": "", "d/c/Chart.yaml": "name: c", "d/c/fleet.yaml": "", "d/c/sub/Chart.yaml": "name: s"},
		},
		"Chart": {why: "templates of a chart are no YAML", tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/x.yaml": "a: [ {{ any }}", "d/values.yaml": "a: 1"}},
		"BesideTemplates": {
			why:   "Helm renders what is in templates; values files are none of its business, whatever is in them",
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/x.yaml": configMap, "d/extra.yaml": configMap, "d/crds/y.yaml": configMap, "d/ci.yaml": "kind: a\n", "d/v.yaml": configMap, "d/fleet.yaml": "helm: {chart: ., valuesFiles: [v.yaml]}"},
			found: []string{"d/extra.yaml:1:1: warning: extra.yaml is not deployed: of a chart Helm renders what is in templates [not-read]"},
		},
		"BesideTemplatesBelow": {
			tree:  map[string]string{"d/w/Chart.yaml": "name: c\nversion: 1.0.0", "d/w/templates/x.yaml": configMap, "d/w/extra.yml": "{{- if .Values.a }}\n" + configMap + "{{- end }}\n", "d/fleet.yaml": "helm: {chart: w}"},
			found: []string{"d/w/extra.yml:1:1: warning: extra.yml is not deployed: of a chart Helm renders what is in templates [not-read]"},
		},
		"ReadByTemplates": {tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/x.yaml": "{{ .Files.Get \"extra.yaml\" }}", "d/extra.yaml": configMap}},
		"ReadByKustomize": {tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/kustomization.yaml": "resources: [extra.yaml]\n", "d/extra.yaml": configMap}},
		"Ending": {
			tree: map[string]string{"d/a.yaml": configMap, "d/b.yalm": configMap, "d/c.ymal": configMap, "d/d.yaml.bak": configMap, "d/e.yalm": "a: b\n", "d/c/Chart.yaml": "name: c", "d/c/fleet.yaml": "", "d/c/b.yalm": configMap},
			found: []string{
				"d/b.yalm:1:1: warning: b.yalm is not deployed: its name does not end with .yaml, .yml or .json [not-read]",
				"d/c.ymal:1:1: warning: c.ymal is not deployed: its name does not end with .yaml, .yml or .json [not-read]",
			},
		},
		"ChartFiles": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": bad},
			found: []string{"d/values.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"},
		},
		"DocumentWithoutKind": {
			why:  "the reference leaves it out silently; here a warning has its line",
			tree: map[string]string{"d/cm.yaml": configMap + "--- # more\n\n# about b\napiVersion: v1\nmetadata: {name: b}\n---\n{}\n---\nfree: text\n", "d/prod.yaml": "helm: {chart: web}\nnamespace: a\n"},
			found: []string{
				"d/cm.yaml:7:1: warning: the document has no kind, so it is not deployed [manifest]",
				"d/cm.yaml:12:1: warning: the document has neither apiVersion nor kind, so it is not deployed [manifest]",
			},
		},
		"ImpossibleNamespace": {
			why: "a namespace of fleet.yaml takes its place, so it is a warning",
			tree: map[string]string{
				"d/a.yaml": configMap + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  namespace: Not_Valid\n",
				"d/b.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c, namespace: a.b}\n",
			},
			found: []string{
				"d/a.yaml:9:14: warning: ConfigMap b: metadata.namespace is not possible: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character [value]",
				"d/b.yaml:6:34: warning: ConfigMap c: metadata.namespace is not possible: must not contain dots [value]",
			},
		},
		"NoObject": {
			why: "agents refuse these, for all of the bundle",
			tree: map[string]string{
				"d/a.yaml": configMap + "---\n---\njust text\n", "d/b.json": `[{"kind": "Pod"}]`, "d/c.yaml": "kind: Service\nmetadata: {name: a}\n",
				"d/d.yaml": "apiVersion: v1\nkind: Service\n", "d/e.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: 5}\n",
			},
			found: []string{
				"d/a.yaml:6:1: error: a manifest must be a mapping with apiVersion, kind and metadata, not a text [manifest]",
				"d/b.json:1:1: error: a manifest must be a mapping with apiVersion, kind and metadata, not a list [manifest]",
				"d/c.yaml:1:1: error: Service a has no apiVersion [manifest]",
				"d/d.yaml:1:1: error: Service has no metadata.name [manifest]",
				"d/e.yaml:1:1: error: metadata.name must be a text; put it in quotes [manifest]",
			},
		},
		"NoLineBetween": {
			why: "the decoder of agents mixes the keys, and takes the last of each",
			tree: map[string]string{"d/a.yaml": configMap + "---\n" + strings.Replace(configMap, "name: a", "name: b", 1) + strings.Replace(configMap, "name: a", "name: c", 1) +
				"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\ndata:\n  text: |\n    apiVersion: v1\n"},
			found: []string{"d/a.yaml:8:1: warning: two objects stand in one document: a line --- is missing before line 8 [joined]"},
		},
		"NameOfTheServer": {
			why:   "Helm looks for each object by its name before it makes it",
			tree:  map[string]string{"d/a.yaml": configMap + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-}\n"},
			found: []string{"d/a.yaml:5:1: error: Job has metadata.generateName and no metadata.name, which Helm cannot install [manifest]"},
		},
		"SameObjectTwice": {
			why: "one of the two would be lost",
			tree: map[string]string{
				"d/a.yaml": configMap, "d/b.yaml": "# again\n" + configMap,
				"d/c.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}}\n" +
					"- {apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a, namespace: ns}}\n" +
					"- {apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: m}}\n",
				"d/d.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a, annotations: {helm.sh/hook: post-install}}\n" +
					"---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a, annotations: {helm.sh/hook: post-install}}\n",
			},
			found: []string{
				"d/b.yaml:2:1: error: ConfigMap a is in the bundle twice: first in d/a.yaml:1 [duplicate]",
				"d/c.yaml:5:1: error: Deployment ns/a is in the bundle twice: first in d/c.yaml:4 [duplicate]",
				"d/d.yaml:3:43: warning: helm.sh/hook has no effect here: the object is deployed like any other [value]",
				"d/d.yaml:7:43: warning: helm.sh/hook has no effect here: the object is deployed like any other [value]",
			},
		},
		"ListInAList": {
			why: "each object has its place, also behind another document",
			tree: map[string]string{"d/c.yaml": configMap + "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n" +
				"  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n  - {apiVersion: v1, kind: Secret}\n"},
			found: []string{
				"d/c.yaml:11:1: error: ConfigMap a is in the bundle twice: first in d/c.yaml:1 [duplicate]",
				"d/c.yaml:12:1: error: Secret has no metadata.name [manifest]",
			},
		},
		"ValuesOfManifests": {
			why: "nothing reads them",
			tree: map[string]string{
				"d/cm.yaml": configMap, "d/prod.yaml": "a: b\n",
				"d/fleet.yaml": "helm:\n  values:\n    a: b\ntargetCustomizations:\n- clusterName: x\n  helm: {valuesFiles: [prod.yaml]}\n- clusterName: z\n  helm: {valuesFrom: [{secretKeyRef: {name: a}}]}\n",
			},
			found: []string{
				"d/fleet.yaml:3:5: warning: helm.values has no effect: the bundle has neither a chart nor templates [unused-values]",
				"d/fleet.yaml:6:23: warning: helm.valuesFiles has no effect: the bundle has neither a chart nor templates [unused-values]",
				"d/fleet.yaml:8:22: warning: helm.valuesFrom has no effect: the bundle has neither a chart nor templates [unused-values]",
			},
		},
		"ValuesOfAKustomization": {
			tree: map[string]string{
				"d/cm.yaml": configMap, "d/kustomization.yaml": "resources: [cm.yaml]\n", "d/fleet.yaml": "helm:\n  templateValues: {a: b}\n",
			},
			found: []string{"d/fleet.yaml:2:19: warning: helm.templateValues has no effect: the bundle has neither a chart nor templates [unused-values]"},
		},
		"ValuesOfTemplates": {
			why:  "a directory templates is rendered without a Chart.yaml, too",
			tree: map[string]string{"d/templates/cm.yaml": configMap, "d/fleet.yaml": "helm:\n  values: {a: b}\n"},
		},
		"ValuesOfAChartForSome": {
			tree: map[string]string{
				"d/cm.yaml": configMap, "d/web/Chart.yaml": "name: c", "d/fleet.yaml": "helm:\n  values: {a: b}\ntargetCustomizations:\n- clusterName: x\n  helm: {chart: web}\n",
			},
		},
		"KeysThatAreNoTexts": {
			why: "the object gets another key than the one that is written",
			tree: map[string]string{
				"d/cm.yaml": configMap + "data:\n  on: a\n  \"off\": b\n  list: {no: 1, true: 2}\n", "d/other.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  text: |\n    on: a\n",
			},
			found: []string{
				`d/cm.yaml:5:3: warning: the key data.on counts as "true" [type]`,
				`d/cm.yaml:7:10: warning: the key data.list.no counts as "false" [type]`,
			},
		},
		"Kustomization": {
			tree: map[string]string{
				"d/kustomization.yaml": "resources: [base, cm.yaml]\nconfigMapGenerator:\n- name: x\n  files: [any.yaml]\n", "d/any.yaml": "{{ free }} text: [",
				"d/base/kustomization.yaml": "resources: [x.yaml]", "d/base/x.yaml": bad, "d/cm.yaml": configMap,
			},
			found: []string{"d/base/x.yaml:2:1: error: YAML: a tab where spaces indent [yaml]"},
		},
		"KustomizationKeys": {
			why: "kustomize does not mind the case of keys",
			tree: map[string]string{
				"d/kustomization.yaml": "Resources: [base, 'https://x.example/a']\nconfigMapGenerator:\n- name: x\n  Files: [gone.txt]\n", "d/cm.yaml": configMap,
				"d/base/kustomization.yaml": "PATCHES: [{Path: x.yaml}]", "d/base/x.yaml": bad,
			},
			found: []string{
				"d/base/x.yaml:2:1: error: YAML: a tab where spaces indent [yaml]",
				`d/kustomization.yaml:1:1: warning: "https://x.example/a" is not in the bundle, and clusters download nothing [outside]`,
				`d/kustomization.yaml:4:1: error: "gone.txt" is not in the bundle [file]`,
			},
		},
		"KustomizationOfATarget": {
			tree: map[string]string{
				"d/fleet.yaml":                         "targetCustomizations:\n- name: prod\n  clusterName: x\n  kustomize: {dir: overlays/prod}\n",
				"d/overlays/prod/kustomization.yaml":   "resources: [../../base]",
				"d/base/kustomization.yaml":            "resources: [\n",
				"d/overlays/other/not-a-manifest.yaml": bad,
			},
			found: []string{"d/base/kustomization.yaml:1:1: error: YAML: probably a bracket is opened and not closed, or closed and not opened (did not find expected node content) [yaml]"},
		},
		"NoSuchKustomization": {
			why: "the overlay would be nothing, without a word",
			tree: map[string]string{
				"d/fleet.yaml":                       "kustomize: {dir: base}\ntargetCustomizations:\n- clusterName: x\n  kustomize: {dir: overlay/prod}\n- clusterName: z\n  kustomize: {dir: docs}\n",
				"d/overlays/prod/kustomization.yaml": "resources: [../../base]", "d/base/kustomization.yaml": "", "d/docs/a.txt": "",
			},
			found: []string{
				`d/fleet.yaml:4:20: warning: kustomize.dir "overlay/prod" does not exist: the bundle is deployed without it [file]`,
				`d/fleet.yaml:6:20: warning: kustomize.dir "docs" has no kustomization.yaml: the bundle is deployed without it [file]`,
			},
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
		"LocalChart":         {tree: map[string]string{"d/fleet.yaml": "helm: {chart: ./web}\n", "d/web/Chart.yaml": "name: web", "d/web/templates/a.yaml": "{{ any }}"}},
		"DependencyDisabled": {tree: map[string]string{"d/fleet.yaml": "helm: {disableDependencyUpdate: true}", "d/Chart.yaml": "name: c\ndependencies:\n- name: redis\n"}},
		"ValuesFileMissing": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  chart: .\n  valuesFiles:\n  - values-prod.yaml\n", "d/Chart.yaml": "name: c", "d/values-prod.yml": "a: 1"},
			found: []string{`d/fleet.yaml:4:5: error: values file "values-prod.yaml" does not exist [file]`},
		},
		"TemplatesOfValues": {
			why: "they fail on every cluster; a template may reach over several texts",
			tree: map[string]string{
				"d/fleet.yaml": "helm:\n  chart: .\n  valuesFiles: [v.yaml]\n  values:\n    a: ${ .ClusterLabels.env | uper }\n    b: |\n      text\n      ${ .ClusterName\n    d: ${ env \"HOME\" }\n" +
					"  templateValues:\n    c: ${ end }\ntargetCustomizations:\n- clusterName: c1\n  helm: {values: {x: \"${ if .ClusterName }\", z: \"${ end }\"}}\n" +
					"- clusterName: c2\n  helm: {valuesFiles: [v.yaml]}\n",
				"d/Chart.yaml": "name: c", "d/v.yaml": "fine: ${ .ClusterName }\nbad: ${ if }\n",
			},
			found: []string{
				`d/fleet.yaml:5:8: error: template of helm.values.a: there is no function "uper" [template]`,
				`d/fleet.yaml:8:8: error: template of helm.values.b: the } that closes ${ is missing [template]`,
				`d/fleet.yaml:9:8: error: template function "env" is refused: templates of values reach nothing outside of them [reaches-out]`,
				`d/fleet.yaml:11:8: error: template of helm.templateValues.c: unexpected {{end}} [template]`,
				`d/v.yaml:2:6: error: template of bad: missing value for if [template]`,
			},
		},
		"TemplatesAreText": {
			why:  "without templates this is text",
			tree: map[string]string{"d/fleet.yaml": "helm: {chart: ., disablePreProcess: true, values: {a: \"${ x\"}}\ntargetCustomizations: [{clusterName: a, helm: {values: {b: \"${ x\"}}}]\n", "d/Chart.yaml": "name: c"},
		},
		"TemplatesOfACharts": {
			why: "what Helm cannot parse it renders for no cluster; a subchart may be switched off",
			tree: map[string]string{
				"d/fleet.yaml": "helm: {chart: web}\n", "d/web/Chart.yaml": "name: web", "d/web/templates/a.yaml": "a: 1\n{{ if .Values.a }}\n",
				"d/web/templates/_b.tpl": "{{ define \"x\" }}{{ nobodyKnows }}{{ end }}", "d/web/charts/c/templates/c.yaml": "{{", "d/templates/d.yaml": "{{",
			},
			found: []string{"d/web/templates/a.yaml:2:1: error: template: this if has no end: the file ends before it is closed with {{ end }} [template]"},
		},
		"TemplatesOfPlainManifests": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/templates/x.yaml": "a: 1\nb: {{ .Values.a }\n", "d/templates/x.txt": "{{"},
			found: []string{"d/templates/x.yaml:2:1: error: template: unexpected \"}\" in operand [template]"},
		},
		"ValuesFilesNotUsed": {
			why:  "the reference reads them only for a chart that helm names",
			tree: map[string]string{"d/fleet.yaml": "helm:\n  valuesFiles:\n  - prod.yaml\n  - gone.yaml\n", "d/Chart.yaml": "name: c", "d/prod.yaml": "a: 1", "d/gone.yml": "a: 1"},
			found: []string{
				`d/fleet.yaml:3:5: warning: values file "prod.yaml" is not used: helm names neither chart nor repo [unused-values]`,
				`d/fleet.yaml:4:5: warning: values file "gone.yaml" does not exist [file]`,
				`d/fleet.yaml:4:5: warning: values file "gone.yaml" is not used: helm names neither chart nor repo [unused-values]`,
			},
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

func TestNearestKustomization(t *testing.T) {
	r := Assemble(files(map[string]string{
		"d/fleet.yaml": "kustomize: {dir: overlay/prod}\n", "d/a.yaml": configMap,
		"d/overlays/prod/kustomization.yaml": "", "d/overlays/other/kustomization.yaml": "",
	}), Dir{Path: "d"}, Options{Repo: "repo"})
	if len(r.Findings) != 1 || r.Findings[0].Hint != `did you mean "overlays/prod"?` {
		t.Errorf("want the nearest directory, got %+v", r.Findings)
	}
}

func TestNearestResource(t *testing.T) {
	r := Assemble(files(map[string]string{
		"d/kustomization.yaml": "resources: [bse, cmm.yaml, ./x/depoy.yaml, nowhere.yaml]\n", "d/cm.yaml": configMap, "d/base/kustomization.yaml": "",
		"d/x/deploy.yaml": configMap,
	}), Dir{Path: "d"}, Options{Repo: "repo"})
	var hints []string
	for _, f := range r.Findings {
		hints = append(hints, f.Message+" ("+f.Hint+")")
	}
	want := []string{
		`"./x/depoy.yaml" is not in the bundle (did you mean "x/deploy.yaml"?)`, `"bse" is not in the bundle (did you mean "base"?)`,
		`"cmm.yaml" is not in the bundle (did you mean "cm.yaml"?)`, `"nowhere.yaml" is not in the bundle ()`,
	}
	if diff := cmp.Diff(want, hints); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
