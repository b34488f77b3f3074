package main

const ofBraces = " holds {{ }} with what only Fleet knows, and Fleet renders ${ } only: the chart gets the text as it is [not-rendered]\n"

// Templates for Fleet in the braces of Helm. Others are left to the chart.
var mistakesOfBraces = map[string]mistake{
	"Values": {
		inValues("    deep:\n    - \"{{ .ClusterLabels.env }}\"\n"),
		"fleet.yaml:5:7: warning: helm.values.deep[0]" + ofBraces + "    write ${ .ClusterLabels.env }\n",
	},
	"Lines": {
		inValues("    text: |\n      first\n      second {{- get $.ClusterLabels \"env\" | quote -}}\n"),
		"fleet.yaml:6:11: warning: helm.values.text" + ofBraces + "    write ${ .ClusterLabels }\n",
	},
	"Customization": {
		inValues("targetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm: {templateValues: {a: 'x-{{.ClusterName}}'}}\n"),
		"fleet.yaml:6:30: warning: targetCustomizations[0].helm.templateValues.a" + ofBraces + "    write ${ .ClusterName }\n",
	},
	"ValuesFile": {
		map[string]string{
			"Chart.yaml": mistakenChart, "fleet.yaml": "helm:\n  chart: .\n  valuesFiles: [prod.yaml]\n",
			"prod.yaml": "color: red\nregion: '{{ .ClusterValues.region }}'\n", "templates/a.yaml": mistakenCM,
		},
		"prod.yaml:2:9: warning: helm.values.region" + ofBraces + "    write ${ .ClusterValues.region }\n",
	},
	"OfTheChart": {
		inValues("    a: '{{ .Values.ClusterName }} {{ .Release.Name }} {{ include \"a.ClusterName\" . }} {{ $labels.ClusterName }} {{ .ClusterNames }}'\n" +
			"    b: '{{ range .Values.all }}{{ .ClusterName }}{{ end }}'\n    c: '{{ (first .Values.all).ClusterName }} .ClusterName'\n"), "",
	},
	"Switched off": {inValues("    a: '{{ .ClusterName }}'\n  disablePreProcess: true\n"), ""},
}
