package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Every place is one that Helm's or kustomize's own library reports for these
// files.
func TestLocate(t *testing.T) {
	kustomized := "resources:\n- cm.yaml\n- missing.yaml\n"
	inDir := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Chart: "./charts/web"}}
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions
		files   map[string]string
		want    Place
	}{
		"Required": {
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: b\nc: {{ required \"no value for .Values.tier\" .Values.tier }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 2, Column: 7, Text: "no value for .Values.tier"},
		},
		"GeneratedChart": {
			why:   "a templates folder alone is a chart too",
			files: map[string]string{"cm.yaml": renderMap, "templates/a.yaml": "{{ fail \"no\" }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 1, Column: 4, Text: "no"},
		},
		"Nil": {
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: {{ .Values.b.c.d }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 1, Column: 14, Text: ".Values.b.c.d: there is no value b; set it in values.yaml of the chart or in helm.values"},
		},
		"NilNear": {
			why: "the key is misspelt", options: values(map[string]any{"image": map[string]any{"tag": "a"}}),
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: {{ $.Values.imge.tag }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 1, Column: 8, Text: "$.Values.imge.tag: there is no value imge; did you mean image?"},
		},
		"NilBelow": {
			why:   "the keys beside the one that is missing help",
			files: map[string]string{"Chart.yaml": renderChart, "values.yaml": "a: {b: {c: d}, e: f}\n", "templates/a.yaml": "a: {{ .Values.a.size.c }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 1, Column: 14, Text: ".Values.a.size.c: there is no value a.size; a has b, e"},
		},
		"NilNull": {
			why:   "null takes a value away",
			files: map[string]string{"Chart.yaml": renderChart, "values.yaml": "a: {b: null}\n", "templates/a.yaml": "a: {{ .Values.a.b.c }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 1, Column: 14, Text: ".Values.a.b.c: the value a.b is null"},
		},
		"NullOfABundle": {
			why:     "null takes the default of the chart away",
			options: values(map[string]any{"a": map[string]any{"b": nil}}),
			files:   map[string]string{"Chart.yaml": renderChart, "values.yaml": "a: {b: {c: d}, e: f}\n", "templates/a.yaml": "a: {{ .Values.a.b.c }}\n"},
			want: Place{File: "templates/a.yaml", Line: 1, Column: 14, Null: []any{"a", "b"},
				Text: ".Values.a.b.c: there is no value a.b: null in the bundle's values takes the default of the chart away"},
		},
		"NullWithoutDefault": {
			options: values(map[string]any{"a": nil}),
			files:   map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: {{ $.Values.a.b }}\n"},
			want:    Place{File: "templates/a.yaml", Line: 1, Column: 8, Null: []any{"a"}, Text: "$.Values.a.b: the value a is null"},
		},
		"NullOfASubchart": {
			options: values(map[string]any{"sub": map[string]any{"image": nil}}),
			files: map[string]string{
				"Chart.yaml": renderChart, "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "charts/sub/values.yaml": "image: {tag: b}\n",
				"charts/sub/templates/a.yaml": "a: {{ .Values.image.tag }}\n",
			},
			want: Place{File: "charts/sub/templates/a.yaml", Line: 1, Column: 14, Null: []any{"sub", "image"},
				Text: ".Values.image.tag: there is no value image for the subchart sub: null in the bundle's values takes the default of the chart away"},
		},
		"NilInside": {
			why:   "the expression does not say which value is meant inside of with",
			files: map[string]string{"Chart.yaml": renderChart, "values.yaml": "a: {b: c}\n", "templates/a.yaml": "{{ with .Values.a }}\na: {{ .tg.x }}\n{{ end }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 2, Column: 10, Text: ".tg.x: .tg has no value here, so there is no x in it"},
		},
		"NilOfASubchart": {
			why: "a subchart sees its own values",
			files: map[string]string{
				"Chart.yaml": renderChart, "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "charts/sub/values.yaml": "image: {tag: b}\n",
				"charts/sub/templates/a.yaml": "a: {{ .Values.imag.tag }}\n",
			},
			want: Place{File: "charts/sub/templates/a.yaml", Line: 1, Column: 14, Text: ".Values.imag.tag: there is no value imag for the subchart sub; did you mean image?"},
		},
		"ToYaml": {
			why: "the line that breaks the YAML, and how to write it", options: values(map[string]any{"labels": map[string]any{"a": "b", "c": "d"}}),
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "kind: A\nmetadata:\n  labels:\n    {{ toYaml .Values.labels }}\n    e: f\n"},
			want: Place{File: "templates/a.yaml", Line: 4, Column: 5, Text: "line 6 of what it renders to: mapping values are not allowed in this context; " +
				"probably toYaml writes several lines and nindent is missing: write {{- toYaml ... | nindent 4 }}"},
		},
		"Included": {
			why: "the template that fails is to blame, not the one that includes it",
			files: map[string]string{
				"Chart.yaml": renderChart, "templates/a.yaml": "a: {{ include \"x\" . }}\n",
				"templates/_h.tpl": "{{ define \"x\" }}\n{{ .Values.b.c.d }}\n{{ end }}",
			},
			want: Place{File: "templates/_h.tpl", Line: 2, Column: 11, Text: ".Values.b.c.d: there is no value b; set it in values.yaml of the chart or in helm.values"},
		},
		"Syntax": {
			why:   "the line of the template, not of what it renders to",
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: b\nc: {{ nosuch }}\n"},
			want:  Place{File: "templates/a.yaml", Line: 2, Text: `function "nosuch" not defined`},
		},
		"RenderedYAML": {
			why:   "Helm knows the line of the result only",
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "kind: A\n{{ if true }}\na: [\n{{ end }}\n"},
			want:  Place{File: "templates/a.yaml", Text: "line 3 of what it renders to: did not find expected node content"},
		},
		"Subdirectory": {
			why: "the chart's files are below helm.chart", options: inDir,
			files: map[string]string{"charts/web/Chart.yaml": renderChart, "charts/web/templates/a.yaml": "{{ fail \"no\" }}"},
			want:  Place{File: "charts/web/templates/a.yaml", Line: 1, Column: 4, Text: "no"},
		},
		"Subchart": {
			files: map[string]string{
				"Chart.yaml": renderChart, "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
				"charts/sub/templates/a.yaml": "{{ fail \"no\" }}",
			},
			want: Place{File: "charts/sub/templates/a.yaml", Line: 1, Column: 4, Text: "no"},
		},
		"ChartFile": {
			files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\n", "templates/a.yaml": "a: b"},
			want:  Place{File: "Chart.yaml", Text: "validation: chart.metadata.version is required"},
		},
		"ValuesFile": {
			files: map[string]string{"Chart.yaml": renderChart, "values.yaml": "a: b\nc: [\n"},
			want:  Place{File: "values.yaml", Line: 2, Text: "did not find expected node content"},
		},
		"KubeVersion": {
			files: map[string]string{"Chart.yaml": renderChart + "kubeVersion: \">=1.99\"\n"},
			want:  Place{File: "Chart.yaml", Line: 4, Column: 1, Text: "chart requires kubeVersion: >=1.99 which is incompatible with Kubernetes v1.20.0"},
		},
		"Manifest": {
			files: map[string]string{"cm.yaml": "a: b\n---\nkind: A\nb: [\n"},
			want:  Place{File: "cm.yaml", Line: 4, Text: "did not find expected node content"},
		},
		"Object": {
			files: map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\n"},
			want:  Place{File: "cm.yaml", Text: "ConfigMap without metadata.name"},
		},
		"LabelsOfTheThird": {
			why:   "the field of the object, not the beginning of the file",
			files: map[string]string{"cm.yaml": renderMap + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels:\n  a: b\n"},
			want:  Place{File: "cm.yaml", Line: 14, Column: 3, Text: "ConfigMap c: metadata.labels must be a map"},
		},
		"LabelOfTheSecond": {
			files: map[string]string{"cm.yaml": renderMap + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: web\n  labels: {b: x, a.b/c: 1}\n"},
			want:  Place{File: "cm.yaml", Line: 11, Column: 25, Text: "ConfigMap web/c: labels: the value of \"a.b/c\" is no text; put it in quotes"},
		},
		"AnnotationsInALists": {
			files: map[string]string{"cm.yaml": renderMap + "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: b}\n" +
				"- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: c\n      annotations: [a]\n"},
			want: Place{File: "cm.yaml", Line: 19, Column: 7, Text: "ConfigMap c: metadata.annotations must be a map"},
		},
		"LabelsOfATemplate": {
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n  labels: [a]\n"},
			want:  Place{File: "templates/a.yaml", Text: "ConfigMap app: metadata.labels must be a map"},
		},
		"TextBehindASeparator": {
			files: map[string]string{"cm.yaml": renderMap + "--- # b\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n--- apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
			want:  Place{File: "cm.yaml", Line: 9, Text: "a line that begins with --- separates documents: what stands behind --- belongs in the next line"},
		},
		"TextAtASeparator": {
			files: map[string]string{"cm.yaml": renderMap + "---apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"},
			want:  Place{File: "cm.yaml", Line: 5, Text: "a line that begins with --- separates documents: what stands behind --- belongs in the next line"},
		},
		"ClusterScoped": {
			options: fleet.BundleDeploymentOptions{TargetNamespace: "web"},
			files:   map[string]string{"ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"},
			want:    Place{File: "ns.yaml", Text: "Namespace a is cluster-scoped, but the bundle is limited to one namespace; use defaultNamespace instead of namespace"},
		},
		"KustomizeMissing": {
			files: map[string]string{"kustomization.yaml": kustomized, "cm.yaml": renderMap},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3},
		},
		"KustomizeDir": {
			options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "overlays/prod"}},
			files:   map[string]string{"overlays/prod/kustomization.yaml": kustomized, "overlays/prod/cm.yaml": renderMap},
			want:    Place{File: "overlays/prod/kustomization.yaml", Line: 3, Column: 3},
		},
		"KustomizePatchFile": {
			why: "the patch is to be repaired, not the file as a whole",
			files: map[string]string{
				"kustomization.yaml": "resources:\n- cm.yaml\npatches:\n- path: good.yaml\n- path: bad.yaml\n", "cm.yaml": renderMap,
				"good.yaml": renderMap, "bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: no.where\n",
			},
			want: Place{File: "kustomization.yaml", Line: 5, Column: 3, Text: "the patch is for ConfigMap no.where, and no resource of the kustomization has that kind and name"},
		},
		"KustomizePatchOfBase": {
			why: "a kustomization that is built on may be to blame", options: fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "prod"}},
			files: map[string]string{
				"prod/kustomization.yaml": "resources:\n- ../base\n", "base/cm.yaml": renderMap,
				"base/kustomization.yaml": "resources:\n- cm.yaml\npatchesStrategicMerge:\n- |-\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: b\n",
			},
			want: Place{File: "base/kustomization.yaml", Line: 4, Column: 3, Text: "the patch is for ConfigMap b, and no resource of the kustomization has that kind and name"},
		},
		"KustomizeOperation": {
			files: map[string]string{
				"kustomization.yaml": "resources:\n- cm.yaml\npatches:\n- target: {kind: ConfigMap}\n  patch: |-\n    - op: replace\n      path: /spec/replicas\n      value: x\n", "cm.yaml": renderMap,
			},
			want: Place{File: "kustomization.yaml", Line: 7, Column: 13},
		},
		"KustomizeOperationInFile": {
			files: map[string]string{
				"kustomization.yaml": "resources:\n- cm.yaml\npatches:\n- target: {kind: ConfigMap}\n  path: p.yaml\n", "cm.yaml": renderMap,
				"p.yaml": "- op: replace\n  path: /spec/replicas\n  value: x\n",
			},
			want: Place{File: "p.yaml", Line: 2, Column: 9},
		},
		"KustomizeField": {
			why: "patch is a field of an entry of patches", files: map[string]string{"kustomization.yaml": "resources: [cm.yaml]\npatchs:\n- patch: a\n", "cm.yaml": renderMap},
			want: Place{File: "kustomization.yaml", Line: 2, Column: 1, Text: `invalid Kustomization: json: unknown field "patchs"; did you mean "patches"?`},
		},
		"KustomizeFieldBelow": {
			files: map[string]string{"kustomization.yaml": "resources: [cm.yaml]\npatches:\n- patchs: a\n", "cm.yaml": renderMap},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: `invalid Kustomization: json: unknown field "patchs"; did you mean "patch"?`},
		},
		"KustomizeYAML": {
			files: map[string]string{"kustomization.yaml": "resources: [cm.yaml]\n", "cm.yaml": "a: b\nc: [\n"},
			want:  Place{File: "cm.yaml", Line: 2, Text: "did not find expected node content"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := rendered(c.options, c.files)
			_, err := Render(d, RenderOptions{})
			if err == nil {
				t.Fatal("no error")
			}
			got, ok := Locate(d, err)
			if !ok {
				t.Fatalf("%s: no place in %q", c.why, err)
			}
			if c.want.Text == "" {
				got.Text = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
}

// kustomize refuses what it reads as a resource or a patch and is none: the place is in
// the file that it names, and the text is not its own.
func TestLocateIncomplete(t *testing.T) {
	const (
		resources = "resources: [cm.yaml]\n"
		patches   = resources + "patches:\n- path: p.yaml\n"
		noKind    = "apiVersion: v1\nmetadata: {name: a}\n"
		hint      = ": it has to say with kind and metadata.name what it changes"
	)
	cases := map[string]struct {
		dir   string // of the kustomization
		files map[string]string
		want  Place
	}{
		"Kind": {
			files: map[string]string{"kustomization.yaml": resources, "cm.yaml": renderMap + "---\n# b\n" + noKind},
			want:  Place{File: "cm.yaml", Line: 7, Text: "the document has no kind, so kustomize refuses the file"},
		},
		"KindOfABase": {
			dir:   "o",
			files: map[string]string{"o/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": resources, "base/cm.yaml": noKind},
			want:  Place{File: "base/cm.yaml", Line: 1, Text: "the document has no kind, so kustomize refuses the file"},
		},
		"Name": {
			files: map[string]string{"kustomization.yaml": resources, "cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {}}\n"},
			want:  Place{File: "cm.yaml", Line: 1, Text: "ConfigMap has no metadata.name, so kustomize refuses the file"},
		},
		"List": {
			files: map[string]string{"kustomization.yaml": resources, "cm.yaml": "# a\n- a\n"},
			want:  Place{File: "cm.yaml", Line: 2, Text: "a resource must be a mapping with apiVersion, kind and metadata, not a list"},
		},
		"Text": {
			files: map[string]string{"kustomization.yaml": resources, "cm.yaml": "hello\n"},
			want:  Place{File: "cm.yaml", Line: 1, Text: "a resource must be a mapping with apiVersion, kind and metadata, not a text"},
		},
		"Transformer": {
			files: map[string]string{"kustomization.yaml": resources + "transformers: [t.yaml]\n", "cm.yaml": renderMap, "t.yaml": noKind},
			want:  Place{File: "t.yaml", Line: 1, Text: "the document has no kind, so kustomize refuses the file"},
		},
		"PatchKind": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "# p\n" + noKind},
			want:  Place{File: "p.yaml", Line: 2, Text: "the patch has no kind" + hint},
		},
		"PatchName": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "apiVersion: v1\nkind: ConfigMap\n"},
			want:  Place{File: "p.yaml", Line: 1, Text: "the patch has no metadata.name" + hint},
		},
		"PatchIsAText": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "hello\n"},
			want:  Place{File: "p.yaml", Line: 1, Text: "a patch must be a mapping, or a list of the operations of a JSON patch, not a text"},
		},
		"PatchOfAnOlderField": {
			files: map[string]string{"kustomization.yaml": resources + "patchesStrategicMerge: [p.yaml]\n", "cm.yaml": renderMap, "p.yaml": noKind},
			want:  Place{File: "p.yaml", Line: 1, Text: "the patch has no kind" + hint},
		},
		"PatchInline": {
			files: map[string]string{"kustomization.yaml": resources + "patches:\n- patch: |\n    apiVersion: v1\n    metadata: {name: x}\n", "cm.yaml": renderMap},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: "the patch has no kind" + hint},
		},
		"PatchInlineIsNoYAML": {
			files: map[string]string{"kustomization.yaml": resources + "patches:\n- patch: |\n    kind: ConfigMap\n     metadata: {name: x}\n", "cm.yaml": renderMap},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: "the patch is no YAML: line 2: mapping values are not allowed in this context"},
		},
		"PatchOfNoVersion": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "kind: ConfigMap\nmetadata: {name: raw}\n"},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: `the patch is for ConfigMap raw without apiVersion, and the resource has apiVersion "v1"`},
		},
		"PatchOfAnotherVersion": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: raw}\n"},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: `the patch is for ConfigMap raw with apiVersion "v2", and the resource has apiVersion "v1"`},
		},
		"PatchOfAnotherNamespace": {
			files: map[string]string{"kustomization.yaml": patches, "cm.yaml": renderMap, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw, namespace: b}\n"},
			want:  Place{File: "kustomization.yaml", Line: 3, Column: 3, Text: `the patch is for ConfigMap raw with metadata.namespace "b", and the resource has none`},
		},
		"PathInQuotes": {
			files: map[string]string{
				"kustomization.yaml": resources + "patches:\n- path: p.yaml\n  target: {kind: ConfigMap}\n", "cm.yaml": renderMap, "p.yaml": "- op: add\n  path: /datax/x/y\n  value: b\n",
			},
			want: Place{File: "p.yaml", Line: 2, Column: 9, Text: `add operation does not apply: doc is missing path: "/datax/x/y": missing value`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := rendered(fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: c.dir}}, c.files)
			_, err := Render(d, RenderOptions{})
			got, ok := Locate(d, err)
			if !ok {
				t.Fatalf("no place in %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestLocateNothing(t *testing.T) {
	if _, ok := Locate(Deployment{}, nil); ok {
		t.Error("no error has no place")
	}
	d := rendered(fleet.BundleDeploymentOptions{}, map[string]string{
		"Chart.yaml": renderChart, "values.schema.json": `{"required":["a"]}`, "templates/a.yaml": "a: b",
	})
	_, err := Render(d, RenderOptions{})
	if place, ok := Locate(d, err); ok || err == nil {
		t.Errorf("values are in no file of the chart: %v, %v", place, err)
	}
}
