package main

// Files of charts that Helm does not read, or not as they are meant.
var mistakesOfChartFiles = map[string]mistake{
	"Case": {
		map[string]string{"chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM},
		"chart.yaml:1:1: warning: chart.yaml is not read as Chart.yaml [not-read]\n    did you mean \"Chart.yaml\"?\n",
	},
	"End": {
		map[string]string{"web/Chart.yml": mistakenChart, "web/templates/a.yaml": mistakenCM, "fleet.yaml": "helm: {chart: web}\n"},
		"web/Chart.yml:1:1: warning: Chart.yml is not read as Chart.yaml [not-read]\n    did you mean \"Chart.yaml\"?\n",
	},
	"Values": {
		map[string]string{"Chart.yaml": mistakenChart, "values.yml": "a: b\n", "templates/a.yaml": mistakenCM},
		"values.yml:1:1: warning: values.yml is not read as values.yaml [not-read]\n    did you mean \"values.yaml\"?\n",
	},
	"NamedValues": {
		map[string]string{"Chart.yaml": mistakenChart, "values.yml": "a: b\n", "templates/a.yaml": mistakenCM, "fleet.yaml": "helm: {chart: ., valuesFiles: [values.yml]}\n"}, "",
	},
	"NoChart": {map[string]string{"cm.yaml": mistakenCM, "chart.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n", "sub/Values.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"}, ""},
	"Keys": {
		map[string]string{
			"Chart.yaml":       mistakenChart + "appversion: '1'\ndependncies: []\nx-team: a\ndependencies:\n- {name: db, version: 1.x, repositry: 'file://db'}\n",
			"templates/a.yaml": mistakenCM, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		},
		"Chart.yaml:5:1: warning: unknown key \"dependncies\" is ignored [unknown-key]\n    did you mean \"dependencies\"?\n" +
			"Chart.yaml:8:28: warning: unknown key \"repositry\" is ignored [unknown-key]\n    did you mean \"repository\"?\n",
	},
	"Repeated": {
		map[string]string{
			"Chart.yaml": mistakenChart, "values.yaml": "image:\n  tag: a\n  tag: b\n", "prod.yaml": "image: {}\nimage: {tag: c}\n",
			"templates/a.yaml": mistakenCM, "fleet.yaml": "helm: {chart: ., valuesFiles: [prod.yaml]}\n",
		},
		"prod.yaml:2:1: warning: key \"image\" stands here again (first in line 1); the last one counts [duplicate-key]\n" +
			"values.yaml:3:3: warning: key \"image.tag\" stands here again (first in line 2); the last one counts [duplicate-key]\n",
	},
	"File": {
		map[string]string{"charts/web/Chart.yaml": mistakenChart, "charts/web/templates/a.yaml": mistakenCM, "fleet.yaml": "helm:\n  chart: charts/web/Chart.yaml\n"},
		"fleet.yaml:2:10: error: helm.chart \"charts/web/Chart.yaml\" is a file, and a chart is a directory [chart]\n    write charts/web\n",
	},
	"Object": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "kind: GitRepo\nspec:\n  repo: https://git.example.com/a\n"},
		"fleet.yaml:1:1: warning: unknown key \"kind\" is ignored [unknown-key]\n" + ofObject + "fleet.yaml:2:1: warning: unknown key \"spec\" is ignored [unknown-key]\n" + ofObject,
	},
}

const ofObject = "    fleet.yaml is no Kubernetes object: what it says of the bundle stands at the top; a GitRepo is created on the management cluster\n"

// kustom is a kustomization of one ConfigMap with more.
func kustom(more string) map[string]string {
	return map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- cm.yaml\n" + more}
}

const forAll = " [render]\n    for every sample cluster\n"

// Mistakes in kustomizations that kustomize answers in the words of Go.
var mistakesOfKustomizeForms = map[string]mistake{
	"TextForAList": {
		map[string]string{"cm.yaml": mistakenCM, "kustomization.yaml": "namePrefix: a-\nresources: cm.yaml\n"},
		"kustomization.yaml:2:1: error: render: resources must be a list, not a text" + forAll,
	},
	"TextForAnEntry": {kustom("images:\n- nginx:2\n"), "kustomization.yaml:3:1: error: render: an entry of images must be a mapping, not a text" + forAll},
	"NumberForAText": {
		kustom("commonLabels:\n  version: 2\n"),
		"kustomization.yaml:3:1: error: render: a value of commonLabels must be a text, not a number; put it in quotes" + forAll,
	},
	"Operation": {
		kustom("patches:\n- target: {kind: ConfigMap}\n  patch: |\n    - op: update\n      path: /data/color\n      value: red\n"),
		"kustomization.yaml:6:11: error: render: \"update\" is no op of a JSON patch: want add, remove, replace, move, copy or test" + forAll,
	},
	"NoTarget": {
		kustom("patches:\n- target: {kind: ConfigMap}\n  patch: |\n    - {op: add, path: /data/a, value: b}\n- patch: |\n    - op: add\n      path: /data/color\n      value: red\n"),
		"kustomization.yaml:7:3: error: render: a JSON patch needs a target: it does not say which resource it changes" + forAll,
	},
	"Literal": {kustom("configMapGenerator:\n- name: b\n  literals: [c=d, color]\n"), "kustomization.yaml:5:19: error: render: a literal must be KEY=VALUE" + forAll},
	"Directory": {
		map[string]string{"base/cm.yaml": mistakenCM, "kustomization.yaml": "resources:\n- base\n"},
		"kustomization.yaml:2:3: error: render: \"base\" is a directory without a kustomization.yaml: add one, or name the files in it" + forAll,
	},
	"Twice": {kustom("- cm.yaml\n"), "kustomization.yaml:2:3: error: render: ConfigMap a is in the kustomization twice" + forAll},
}

// Names in templates that Helm does not have.
var mistakesOfBuiltins = map[string]mistake{
	"Root": {
		chartOf("", "a: {{ .Relase.Name }}", ""),
		"templates/a.yaml:5:16: error: render: .Relase.Name: .Relase has no value here, so there is no Name in it; did you mean .Release?" + forAll,
	},
	"OfTheChart": {
		chartOf("", "a: {{ .Chart.version }}", ""),
		"templates/a.yaml:5:15: error: render: .Chart.version: there is no version in .Chart; did you mean .Chart.Version?" + forAll,
	},
	"OfAText": {
		chartOf("image: nginx\n", "a: {{ .Values.image.tag }}", ""),
		"templates/a.yaml:5:16: error: render: .Values.image.tag: .Values.image is no mapping, so there is no tag in it" + forAll,
	},
	"ListOfValues": {chartOf("- a\n", "a: b", ""), "values.yaml:1:1: error: render: the file must be a mapping, not a list" + forAll},
}
