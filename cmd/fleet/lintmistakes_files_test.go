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
			"Chart.yaml":       mistakenChart + "appversion: '1'\ndependancies: []\nx-team: a\ndependencies:\n- {name: db, version: 1.x, repositry: 'file://db'}\n",
			"templates/a.yaml": mistakenCM, "charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		},
		"Chart.yaml:5:1: warning: unknown key \"dependancies\" is ignored [unknown-key]\n    did you mean \"dependencies\"?\n" +
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
