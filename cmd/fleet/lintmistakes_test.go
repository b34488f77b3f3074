package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	mistakenChart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	mistakenCM    = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  color: blue\n"
	// mistakenCopy is another ConfigMap of ten lines' distance.
	mistakenCopy = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n"
	conflict     = "<<<<<<< HEAD\n  size: 1\n=======\n  size: 2\n>>>>>>> main\n"
)

const (
	ofConflict = "error: YAML: a marker of a merge conflict: git could not merge this file [yaml]\n"
	ofHelm     = `error: YAML: "{{ }}" is a template of Helm, and no templates are rendered in this file [yaml]` + "\n" +
		"    make the directory a chart: add a Chart.yaml, move the file to templates/, and set values in helm.values of fleet.yaml\n"
	ofQuote = "error: YAML: a quote is opened here and not closed [yaml]\n"
)

// What new users write by mistake has one answer, which names the line and the
// cause.
func TestLintMistakes(t *testing.T) {
	for group, cases := range mistakes {
		t.Run(group, func(t *testing.T) {
			for name, c := range cases {
				t.Run(name, func(t *testing.T) {
					out, notes, _ := linted(t, files(t, c.tree), "--offline")
					if diff := cmp.Diff(c.want, out); diff != "" {
						t.Errorf("-want +got\n%s%s", diff, notes)
					}
				})
			}
		})
	}
}

// inValues is a chart with helm.values.
func inValues(values string) map[string]string {
	return map[string]string{
		"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  size: {{ .Values | toJson | quote }}\n",
		"fleet.yaml": "helm:\n  values:\n    color: ${ .ClusterLabels.color }\n" + values,
	}
}

// A mistake is a tree with one mistake, and what fleet lint says of it.
type mistake struct {
	tree map[string]string
	want string
}

var mistakes = map[string]map[string]mistake{
	"TemplatesInManifests": mistakesOfTemplates, "MergeConflicts": mistakesOfMerges, "Quotes": mistakesOfQuotes,
	"TemplatesInOptions": mistakesOfOptions,
	"TemplatesOfValues":  mistakesOfValues,
	"Documents":          mistakesOfDocuments,
	"Leftovers":          mistakesOfLeftovers,
	"Patches":            mistakesOfPatches,
	"Targets":            mistakesOfTargets,
	"Services":           mistakesOfServices,
	"Near":               mistakesOfPaths,
	"Charts":             mistakesOfCharts,
	"Criteria":           mistakesOfCriteria,
	"Encodings":          mistakesOfEncodings,
	"Mounts":             mistakesOfMounts,
	"Exports":            mistakesOfExports,
	"ValuesSchema":       mistakesOfSchemas,
	"Once":               mistakesOnce,
	"Names":              mistakesOfNames,
	"Values":             mistakesOfUnusedValues,
	"Forms":              mistakesOfForms,
	"Kustomizations":     mistakesOfKustomizations,
	"Indentation":        mistakesOfIndentation,
	"Objects":            mistakesOfObjects,
	"Braces":             mistakesOfBraces,
	"ChartValues":        mistakesOfChartValues,
	"ChartVersions":      mistakesOfChartVersions,
	"References":         mistakesOfReferences,
	"ComparePatches":     mistakesOfComparePatches,
	"Images":             mistakesOfImages,
	"Ingresses":          mistakesOfIngresses,
	"ChartFiles":         mistakesOfChartFiles,
	"KustomizeForms":     mistakesOfKustomizeForms,
	"Builtins":           mistakesOfBuiltins,
}

var mistakesOfTemplates = map[string]mistake{
	"Value": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  color: {{ .Values.color }}\n"},
		"cm.yaml:13:1: " + ofHelm,
	},
	"PartOfAName": {
		map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-a\n"},
		"cm.yaml:4:1: " + ofHelm,
	},
	"Condition": {
		map[string]string{"cm.yaml": mistakenCM + "{{- if .Values.color }}\n  size: big\n{{- end }}\n"},
		"cm.yaml:7:1: " + ofHelm,
	},
	"InQuotes": {
		map[string]string{"cm.yaml": mistakenCM + `  image: "nginx:{{ .Values.tag }}"` + "\n"},
		"cm.yaml:7:10: warning: data.image holds {{ }}, and Helm renders no templates in plain manifests [not-rendered]\n" +
			"    make the directory a chart: add a Chart.yaml, move the file to templates/, and set values in helm.values of fleet.yaml\n",
	},
	"OfAnotherProgram": {
		map[string]string{"cm.yaml": mistakenCM + "  alert: \"{{ $labels.pod }} is down\"\n  home: \"${HOME}\"\n  text: |\n    {{ .Values.A }}\n"}, "",
	},
	"OfFleet": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  env: ${ .ClusterLabels.env }\n"},
		"cm.yaml:13:8: warning: data.env holds ${ }, and Fleet renders no templates in plain manifests [not-rendered]\n" +
			"    Fleet renders ${ } only below helm.values of fleet.yaml: make the directory a chart whose templates use such a value\n",
	},
	"OfFleetInAName": {
		map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ${ .ClusterName }\n"},
		"cm.yaml:5:14: error: metadata.namespace holds ${ }, and Fleet renders no templates in plain manifests [not-rendered]\n" +
			"    Fleet renders ${ } only below helm.values of fleet.yaml: make the directory a chart whose templates use such a value\n",
	},
	"OfHelmInFleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "helm:\n  values:\n    color: blue\n    region: {{ .ClusterLabels.region }}\n"},
		"fleet.yaml:4:14: error: a key must be a single text or number [type]\n" +
			"    Fleet renders ${ } only: below helm.values and helm.templateValues of fleet.yaml, and in the files of helm.valuesFiles\n",
	},
}

var mistakesOfMerges = map[string]mistake{
	"Manifest":  {map[string]string{"cm.yaml": mistakenCM + conflict}, "cm.yaml:7:1: " + ofConflict},
	"Later":     {map[string]string{"cm.yaml": mistakenCM + mistakenCopy + conflict}, "cm.yaml:13:1: " + ofConflict},
	"HalfOfIt":  {map[string]string{"cm.yaml": mistakenCM + "  size: 1\n>>>>>>> main\n"}, "cm.yaml:8:1: " + ofConflict},
	"Documents": {map[string]string{"cm.yaml": mistakenCM + "---\n<<<<<<< HEAD\n---\n" + mistakenCM}, "cm.yaml:8:1: " + ofConflict},
	"FleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "helm:\n" + conflict}, "fleet.yaml:2:1: " + ofConflict,
	},
	"ChartYAML": {
		map[string]string{"Chart.yaml": mistakenChart + conflict, "templates/a.yaml": mistakenCM}, "Chart.yaml:4:1: " + ofConflict,
	},
	"Values": {
		map[string]string{"Chart.yaml": mistakenChart, "values.yaml": "a: b\n" + conflict, "templates/a.yaml": mistakenCM},
		"values.yaml:2:1: " + ofConflict,
	},
	"ValuesFile": {
		map[string]string{
			"Chart.yaml": mistakenChart, "fleet.yaml": "helm:\n  chart: .\n  valuesFiles: [prod.yaml]\n", "prod.yaml": "a: b\n" + conflict, "templates/a.yaml": mistakenCM,
		},
		"prod.yaml:2:1: " + ofConflict,
	},
	"Template": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + conflict},
		"templates/a.yaml:7:1: error: render: a marker of a merge conflict: git could not merge this file [render]\n    for every sample cluster\n",
	},
	"Kustomization": {
		map[string]string{"kustomization.yaml": "resources:\n- cm.yaml\n" + conflict, "cm.yaml": mistakenCM}, "kustomization.yaml:3:1: " + ofConflict,
	},
}

var mistakesOfQuotes = map[string]mistake{
	"FleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "helm:\n  releaseName: \"web\n  values:\n    a: b\n"}, "fleet.yaml:2:16: " + ofQuote,
	},
	"ThirdDocument": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  size: big\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: \"c\nstringData: {}\n"}, "cm.yaml:18:9: " + ofQuote,
	},
	"SecondDocument": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  color: 'red\n  size: big\n"}, "cm.yaml:13:10: " + ofQuote,
	},
}

var mistakesOfDocuments = map[string]mistake{
	"ThirdIsAText": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  a: b\n---\nonly some text\n"},
		"cm.yaml:15:1: error: a manifest must be a mapping with apiVersion, kind and metadata, not a text [manifest]\n",
	},
	"ThirdIsIndented": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  a: b\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n   labels: {}\n"},
		"cm.yaml:19:1: error: YAML: probably the line is indented wrongly: it begins with 3 spaces, line 18 with 2 spaces (mapping values are not allowed in this context) [yaml]\n",
	},
	"LabelsOfTheThird": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  a: b\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels: [a]\n"},
		"cm.yaml:19:3: error: ConfigMap c: metadata.labels must be a mapping, not a list [type]\n" +
			"cm.yaml:19:3: error: render: ConfigMap c: metadata.labels must be a map [render]\n    for every sample cluster\n",
	},
	"FourDashes": {
		map[string]string{"cm.yaml": mistakenCM + "-" + mistakenCopy + "  a: b\n"},
		"cm.yaml:7:1: error: YAML: a line that separates documents is exactly three dashes (could not find expected ':') [yaml]\n",
	},
	"TextBehindASeparator": {
		map[string]string{"cm.yaml": mistakenCM + "--- apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"},
		"cm.yaml:7:1: error: render: a line that begins with --- separates documents: what stands behind --- belongs in the next line [render]\n" +
			"    for every sample cluster\n",
	},
	"OnlyOneWithoutKind": {
		map[string]string{"cm.yaml": "# a map\napiVersion: v1\nmetadata: {name: a}\n", "fleet.yaml": "namespace: a\n"},
		"cm.yaml:2:1: warning: nothing is left to deploy: no document of the bundle has a kind [empty]\n    add what is missing, or remove the directory to remove the bundle\n" +
			"cm.yaml:2:1: warning: the document has no kind, so it is not deployed [manifest]\n    add what is missing: a .fleetignore that leaves nothing to deploy is an error\n",
	},
	"NoLineBetween": {
		map[string]string{"cm.yaml": "---\n" + mistakenCM + "# the other one\n" + mistakenService + "web\n"},
		"cm.yaml:9:1: error: two objects stand in one document: a line --- is missing before line 9 [joined]\n" +
			"    without it their keys mix, and only the last object is deployed\n",
	},
	"KindTwice": {
		map[string]string{"cm.yaml": mistakenCM + "kind: ConfigMap\n"},
		"cm.yaml:7:1: warning: key \"kind\" stands here again (first in line 2); the last one counts [duplicate-key]\n",
	},
	"SecondOfFleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "namespace: a\nkeepResources: true\n---\n# more\nnamespace: b\n"},
		"fleet.yaml:5:1: warning: only the first document of the file is read [unknown-key]\n",
	},
}

var mistakesOfPatches = map[string]mistake{
	"NoTarget": {
		map[string]string{
			"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\npatches:\n- path: p.yaml\n",
			"p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n",
		},
		"kustomization.yaml:4:3: error: render: the patch is for ConfigMap b, and no resource of the kustomization has that kind and name [render]\n" +
			"    for every sample cluster\n",
	},
	"NoTargetName": {
		map[string]string{
			"dep.yaml": mistakenWorkload, "kustomization.yaml": "resources:\n- dep.yaml\npatches:\n- path: p.yaml\n",
			"p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: wbe\n",
		},
		"kustomization.yaml:4:3: error: render: the patch is for Deployment wbe, and no resource of the kustomization has that kind and name; did you mean Deployment web? [render]\n" +
			"    for every sample cluster\n",
	},
	"NoTargetKind": {
		map[string]string{
			"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\npatchesStrategicMerge:\n- p.yaml\n",
			"p.yaml": "apiVersion: v1\nkind: ConfgiMap\nmetadata:\n  name: a\n",
		},
		"kustomization.yaml:4:3: error: render: the patch is for ConfgiMap a, and no resource of the kustomization has that kind and name; did you mean ConfigMap a? [render]\n" +
			"    for every sample cluster\n",
	},
	"NoTargetFar": {
		map[string]string{
			"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\npatches:\n- path: p.yaml\n",
			"p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: frontend\n",
		},
		"kustomization.yaml:4:3: error: render: the patch is for ConfigMap frontend, and no resource of the kustomization has that kind and name [render]\n" +
			"    for every sample cluster\n",
	},
}

var mistakesOfNames = map[string]mistake{
	"UpperCase": {
		map[string]string{"cm.yaml": mistakenCM, "Fleet.yaml": "namespace: a\nnamespac: b\n"},
		"Fleet.yaml:1:1: warning: Fleet.yaml is not read as fleet.yaml: the name differs in case [not-read]\n    rename it to fleet.yaml\n",
	},
	"UpperCaseEnd": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.YAML": "namespace: a\n"},
		"fleet.YAML:1:1: warning: fleet.YAML is not read as fleet.yaml: the name differs in case [not-read]\n    rename it to fleet.yaml\n",
	},
	"Below": {
		map[string]string{"cm.yaml": mistakenCM, "web/Fleet.yml": "namespace: a\n"},
		"web/Fleet.yml:1:1: warning: Fleet.yml is not read as fleet.yaml: the name differs in case [not-read]\n    rename it to fleet.yaml\n",
	},
	"Both": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "namespace: a\n", "fleet.yml": "namespace: b\n"},
		"fleet.yml:1:1: warning: fleet.yml is not read: fleet.yaml is there, too [not-read]\n    keep one of the two\n",
	},
	"Kustomization": {
		map[string]string{"cm.yaml": mistakenCM, "kustomisation.yaml": "resources: [cm.yaml]\nnamePrefix: x-\n"},
		"kustomisation.yaml:1:1: warning: kustomisation.yaml is not read as kustomization.yaml [not-read]\n    did you mean \"kustomization.yaml\"?\n",
	},
	"Flux": {
		map[string]string{"kustomizations.yaml": "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n"},
		"kustomizations.yaml:2:7: warning: Kustomization a: kind \"Kustomization\" of \"kustomize.toolkit.fluxcd.io/v1\" is unknown: neither Kubernetes nor a CRD here has it [unknown-kind]\n" +
			"    where its CRD comes from elsewhere, give it with --crd-file; agents wait until the cluster has the kind\n",
	},
	"TemplatesOfAChart": {
		map[string]string{"Chart.yaml": mistakenChart, "template/a.yaml": mistakenCM},
		".:1:1: warning: nothing is rendered: no object is left to deploy [empty]\n    for every sample cluster\n" +
			"template:1:1: warning: template is not read as templates [not-read]\n    did you mean \"templates\"?\n",
	},
	"BesideTemplates": {map[string]string{"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM, "template/a.yaml": mistakenCM}, ""},
	"NoChart":         {map[string]string{"template/a.yaml": mistakenCM}, ""},
	"ShortEnd":        {map[string]string{"cm.yaml": mistakenCM, "fleet.yml": "namespace: a\n"}, ""},
}

// Mistakes that are found twice: when the files are read and when they are
// rendered, or for one sample cluster after another.
var mistakesOnce = map[string]mistake{
	"RemoteBase": {
		map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\n- https://github.com/acme/base//web?ref=v1\n"},
		`kustomization.yaml:3:1: error: "https://github.com/acme/base//web?ref=v1" is not in the bundle, and clusters download nothing [outside]` + "\n" +
			"    for every sample cluster; put it into the repository\n",
	},
	"MissingValue": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  size: {{ required \"size is needed\" .Values.size }}\n# {{ .Values.env }} {{ .Values.color }}\n",
			"fleet.yaml": "helm:\n  values:\n    env: ${ .ClusterLabels.env }\ntargetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm: {values: {color: red}}\n",
		},
		"templates/a.yaml:7:12: error: render: size is needed [render]\n    for every sample cluster\n",
	},
}

var mistakesOfValues = map[string]mistake{
	"Near": {
		inValues("    deep:\n      region: ${ .ClusterLabel.region }\n"),
		"fleet.yaml:5:15: error: render: helm.values.deep.region: there is no .ClusterLabel [render]\n" +
			"    for every sample cluster; did you mean .ClusterLabels?\n",
	},
	"PartOfAnother": {
		inValues("    region: ${ .ClusterLabel }\n"),
		"fleet.yaml:4:13: error: render: helm.values.region: there is no .ClusterLabel [render]\n" +
			"    for every sample cluster; did you mean .ClusterLabels?\n",
	},
	"Far": {
		inValues("    list:\n    - a\n    - ${ .Values.region }\n"),
		"fleet.yaml:6:7: error: render: helm.values.list[1]: there is no .Values [render]\n" +
			"    for every sample cluster; templates know .ClusterAnnotations, .ClusterLabels, .ClusterName, .ClusterNamespace, .ClusterValues\n",
	},
	"WithoutDot": {
		inValues("    region: ${ ClusterLabels.region }\n"),
		"fleet.yaml:4:13: error: template of helm.values.region: there is no function \"ClusterLabels\" [template]\n" +
			"    did you mean .ClusterLabels?\n",
	},
	"KeyWithoutQuotes": {
		inValues("    a: ${ get .ClusterLabels env }\n    b: ${ index .ClusterLabels region }\n    c: ${ env \"HOME\" }\n"),
		"fleet.yaml:4:8: error: template of helm.values.a: env is a key here, and without quotes it counts as a function [template]\n" +
			"    write get .ClusterLabels \"env\"\n" +
			"fleet.yaml:5:8: error: template of helm.values.b: region is a key here, and without quotes it counts as a function [template]\n" +
			"    write index .ClusterLabels \"region\"\n" +
			"fleet.yaml:6:8: error: template function \"env\" is refused: templates of values reach nothing outside of them [reaches-out]\n",
	},
	"Unclosed": {
		inValues("    deep: [a, \"${ .ClusterLabels.region\"]\n"),
		"fleet.yaml:4:15: error: template of helm.values.deep[1]: the } that closes ${ is missing [template]\n",
	},
	"Text": {
		inValues("    text: |\n      first\n      ${ .ClusterNam }\n"),
		"fleet.yaml:6:11: error: render: helm.values.text: there is no .ClusterNam [render]\n" +
			"    for every sample cluster; did you mean .ClusterName?\n",
	},
	"Customization": {
		inValues("targetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm:\n    values:\n      region: ${ .ClusterLabls.region }\n"),
		"fleet.yaml:8:15: error: render: helm.values.region: there is no .ClusterLabls [render]\n" +
			"    1 of 2 sample clusters: env=prod; did you mean .ClusterLabels?\n",
	},
	"ValuesFile": {
		map[string]string{
			"Chart.yaml": mistakenChart, "fleet.yaml": "helm:\n  chart: .\n  valuesFiles: [prod.yaml]\n  values: {color: blue}\n",
			"prod.yaml": "color: red\nregion: ${ .ClusterValue.region }\n", "templates/a.yaml": mistakenCM + "# {{ .Values.color }}\n",
		},
		"prod.yaml:2:9: error: render: helm.values.region: there is no .ClusterValue [render]\n" +
			"    for every sample cluster; did you mean .ClusterValues?\n",
	},
	"TemplateValues": {
		inValues("  templateValues:\n    web: |\n      a: b\n      c: ${ .ClusterLabls.env }\n"),
		"fleet.yaml:7:10: error: render: helm.templateValues.web: there is no .ClusterLabls [render]\n" +
			"    for every sample cluster; did you mean .ClusterLabels?\n",
	},
}

var mistakesOfOptions = map[string]mistake{
	"DefaultNamespace": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "defaultNamespace: \"${ .ClusterLabels.env }\"\n"},
		"fleet.yaml:1:19: error: defaultNamespace holds ${ }, and templates are not rendered there [value]\n" + whereRendered,
	},
	"ValuesFile": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM, "fleet.yaml": "helm:\n  chart: .\n  valuesFiles:\n  - ${ .ClusterLabels.env }.yaml\n"},
		"fleet.yaml:4:5: error: helm.valuesFiles[0] holds ${ }, and templates are not rendered there [not-rendered]\n" + whereRendered,
	},
	"KustomizeDir": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "kustomize:\n  dir: overlays/${ .ClusterLabels.env }\n"},
		"fleet.yaml:2:8: warning: kustomize.dir \"overlays/${ .ClusterLabels.env }\" does not exist: the bundle is deployed without it [file]\n" + whereRendered,
	},
	"ClusterName": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "targetCustomizations:\n- clusterName: ${ .ClusterName }\n  namespace: a\n"},
		"fleet.yaml:2:16: warning: targetCustomizations[0].clusterName holds ${ }, and templates are not rendered there [not-rendered]\n" + whereRendered,
	},
}

const whereRendered = "    Fleet renders ${ } only: below helm.values and helm.templateValues of fleet.yaml, and in the files of helm.valuesFiles\n"

const mistakenSchema = `{"type":"object","additionalProperties":false,"properties":{"port":{"type":"integer"},"global":{},` +
	`"image":{"type":"object","additionalProperties":false,"properties":{"tag":{"type":"string"}}},"list":{"items":{"type":"string"}}}}`

var mistakesOfSchemas = map[string]mistake{
	"FleetYAML": {
		map[string]string{
			"Chart.yaml": mistakenChart, "values.schema.json": mistakenSchema, "templates/a.yaml": mistakenCM,
			"fleet.yaml": "helm:\n  releaseName: a\n  values:\n    image:\n      tag: 7\n    port: http\n",
		},
		"fleet.yaml:5:12: error: render: value image.tag does not fit the schema of chart web: got number, want string [render]\n    for every sample cluster\n" +
			"fleet.yaml:6:11: error: render: value port does not fit the schema of chart web: got string, want integer [render]\n    for every sample cluster\n",
	},
	"ValuesFile": {
		map[string]string{
			"Chart.yaml": mistakenChart, "values.schema.json": mistakenSchema, "templates/a.yaml": mistakenCM,
			"fleet.yaml": "helm:\n  chart: .\n  valuesFiles: [prod.yaml]\n", "prod.yaml": "image:\n  tag: a\n  tg: b\nlist:\n- a\n- 3\n",
		},
		"prod.yaml:3:3: error: render: value image does not fit the schema of chart web: additional properties 'tg' not allowed [render]\n    for every sample cluster\n" +
			"prod.yaml:6:3: error: render: value list[1] does not fit the schema of chart web: got number, want string [render]\n    for every sample cluster\n",
	},
	"ChartValues": {
		map[string]string{"Chart.yaml": mistakenChart, "values.schema.json": mistakenSchema, "templates/a.yaml": mistakenCM, "values.yaml": "port: 1\ncolor: red\n"},
		"values.yaml:2:1: error: render: the values do not fit the schema of chart web: additional properties 'color' not allowed [render]\n    for every sample cluster\n",
	},
	"Customization": {
		map[string]string{
			"Chart.yaml": mistakenChart, "values.schema.json": mistakenSchema, "templates/a.yaml": mistakenCM,
			"fleet.yaml": "helm:\n  values:\n    port: 1\ntargetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm:\n    values:\n      port: x\n",
		},
		"fleet.yaml:8:13: error: render: value port does not fit the schema of chart web: got string, want integer [render]\n    1 of 2 sample clusters: env=prod\n",
	},
}

var mistakesOfUnusedValues = map[string]mistake{
	"PlainManifests": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "helm:\n  values:\n    a: b\n"},
		"fleet.yaml:3:5: warning: helm.values has no effect: the bundle has neither a chart nor templates [unused-values]\n" +
			"    name a chart in helm.chart, or make the directory one: add a Chart.yaml, and move the files to templates/\n",
	},
	"LabelThatIsMissing": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  size: {{ .Values.size | toJson | quote }}\n", "values.yaml": "size: small\n",
			"fleet.yaml": "helm:\n  values:\n    size: ${ get .ClusterLabels \"size\" }\n",
		}, "",
	},
}

var mistakesOfForms = map[string]mistake{
	"Options": {
		map[string]string{
			"cm.yaml":    mistakenCM,
			"fleet.yaml": "targetNamespace: prod\nhelm:\n  maxHistory: -1\n  timeoutSeconds: -5\n  waitForJobs: true\nserviceAccount: Bad_SA\n",
		},
		"fleet.yaml:1:1: warning: unknown key \"targetNamespace\" is ignored [unknown-key]\n" +
			"    it belongs to the GitRepo; namespace puts all objects of this bundle into one namespace, defaultNamespace those that name none\n" +
			"fleet.yaml:3:15: warning: helm.maxHistory -1 counts as 2 [value]\n" +
			"fleet.yaml:4:19: warning: helm.timeoutSeconds -5 counts as 0: Helm does not wait [value]\n" +
			"fleet.yaml:5:16: warning: helm.waitForJobs has no effect: Helm waits for nothing [value]\n    set helm.timeoutSeconds\n" +
			"fleet.yaml:6:17: error: serviceAccount \"Bad_SA\" is not possible: want lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]\n",
	},
	"Mappings": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "dependsOn: [db]\ncorrectDrift: true\n"},
		"fleet.yaml:1:13: error: dependsOn[0] must be a mapping, not a single value [type]\n    write {name: db}\n" +
			"fleet.yaml:2:15: error: correctDrift must be a mapping, not a single value [type]\n    write {enabled: true}\n",
	},
	"Operator": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "targetCustomizations:\n- clusterSelector:\n    matchExpressions:\n    - {key: env, operator: in, values: [prod]}\n  namespace: a\n"},
		"fleet.yaml:4:28: error: clusterSelector cannot be used: \"in\" is not a valid label selector operator; did you mean In? [value]\n",
	},
}

var mistakesOfKustomizations = map[string]mistake{
	"Field": {
		map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "namespace: a\nresource:\n- cm.yaml\n"},
		"kustomization.yaml:2:1: error: render: invalid Kustomization: json: unknown field \"resource\"; did you mean \"resources\"? [render]\n" +
			"    for every sample cluster\n",
	},
	"FieldBelow": {
		map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\nimages:\n- name: nginx\n  newTagg: a\n"},
		"kustomization.yaml:5:3: error: render: invalid Kustomization: json: unknown field \"newTagg\"; did you mean \"newTag\"? [render]\n" +
			"    for every sample cluster\n",
	},
	"Resource": {
		map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cmm.yaml\n"},
		"kustomization.yaml:2:1: error: \"cmm.yaml\" is not in the bundle [file]\n    did you mean \"cm.yaml\"?\n",
	},
}

var mistakesOfIndentation = map[string]mistake{
	"Manifest": {
		map[string]string{"cm.yaml": mistakenCM + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n   labels: {}\n"},
		"cm.yaml:12:1: error: YAML: probably the line is indented wrongly: it begins with 3 spaces, line 11 with 2 spaces (mapping values are not allowed in this context) [yaml]\n",
	},
	"Quotes": {
		map[string]string{"cm.yaml": mistakenCM + "  text: note: more\n"},
		"cm.yaml:7:1: error: YAML: a text with \": \" in it needs quotes, and each key a line of its own (mapping values are not allowed in this context) [yaml]\n",
	},
}

var mistakesOfObjects = map[string]mistake{
	"BooleanKey": {
		map[string]string{"cm.yaml": mistakenCM + "  on: \"1\"\n  off: false\n"},
		"cm.yaml:7:3: warning: the key data.on counts as \"true\" [type]\n    put it in quotes\n" +
			"cm.yaml:8:3: warning: the key data.off counts as \"false\" [type]\n    put it in quotes\n" +
			"cm.yaml:8:8: error: ConfigMap a: data.false must be a text, not true or false [type]\n    put it in quotes\n",
	},
	"TwiceInAList": {
		map[string]string{"l.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n"},
		"l.yaml:7:1: error: ConfigMap a is in the bundle twice: first in l.yaml:4 [duplicate]\n",
	},
	"JSON": {
		map[string]string{"cm.yaml": mistakenCM, "b.json": "{\"apiVersion\": "},
		"b.json:1:1: error: YAML: probably a bracket is opened and not closed, or closed and not opened (did not find expected node content) [yaml]\n",
	},
}
