package main

const ofLeftover = "error: YAML: probably the line is indented wrongly: it begins with "

// mistakesOfLeftovers end a document above its last line: parsers ignore what follows.
var mistakesOfLeftovers = map[string]mistake{
	"LaterKeyTooShallow": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  a: b\n---\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: c\n data: {}\n"},
		"cm.yaml:19:1: " + ofLeftover + "1 space, line 15 with 2 spaces (the document ends above it) [yaml]\n",
	},
	"FirstKeyTooDeep": {
		map[string]string{"cm.yaml": mistakenCM + mistakenCopy + "  a: b\n---\n apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
		"cm.yaml:16:1: " + ofLeftover + "0 spaces, line 15 with 1 space (the document ends above it) [yaml]\n",
	},
	"FleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": " defaultNamespace: x\nhelm:\n  releaseName: a\n"},
		"fleet.yaml:2:1: " + ofLeftover + "0 spaces, line 1 with 1 space (the document ends above it) [yaml]\n",
	},
	"ValuesFile": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  size: {{ .Values.size }}\n",
			"fleet.yaml": "helm: {chart: ., valuesFiles: [prod.yaml]}\n", "prod.yaml": " zzz: 1\nsize: big\n",
		},
		"prod.yaml:2:1: " + ofLeftover + "0 spaces, line 1 with 1 space (the document ends above it) [yaml]\n",
	},
	"ValuesOfChart": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  size: {{ .Values.size }}\n", "values.yaml": " zzz: 1\nsize: big\n"},
		"values.yaml:2:1: " + ofLeftover + "0 spaces, line 1 with 1 space (the document ends above it) [yaml]\n",
	},
	"ChartFile": {
		map[string]string{"Chart.yaml": " apiVersion: v2\nname: web\nversion: 1.0.0\n", "templates/a.yaml": mistakenCM},
		"Chart.yaml:2:1: " + ofLeftover + "0 spaces, line 1 with 1 space (the document ends above it) [yaml]\n",
	},
	"Kustomization": {
		map[string]string{"kustomization.yaml": " namePrefix: a-\nresources:\n- cm.yaml\n", "cm.yaml": mistakenCM},
		"kustomization.yaml:2:1: " + ofLeftover + "0 spaces, line 1 with 1 space (the document ends above it) [yaml]\n",
	},
	"Dots": {
		map[string]string{"cm.yaml": mistakenCM + "...\n" + mistakenCM},
		"cm.yaml:8:1: error: YAML: line 7 ends the document, and what follows is not read [yaml]\n",
	},
	"DotsInFleetYAML": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "namespace: a\n...\nkeepResources: true\n"},
		"fleet.yaml:3:1: error: YAML: line 2 ends the document, and what follows is not read [yaml]\n",
	},
	"SecondJSONObject": {
		map[string]string{"fleet.yaml": "namespace: a\n", "cm.json": mistakenJSON + "\n" + mistakenJSON + "\n"},
		"cm.json:2:1: error: YAML: a second object stands in the document, and only the first is read: a line --- is missing above it [yaml]\n",
	},
	"KeyBehindJSON": {
		map[string]string{"cm.yaml": mistakenJSON + "\ndata: {a: b}\n"},
		"cm.yaml:2:1: error: YAML: the document ends with the bracket, quote or text above, and what follows is not read [yaml]\n",
	},
	"BracketTooMany": {
		map[string]string{"cm.yaml": mistakenJSON + "}\n"},
		"cm.yaml:1:1: error: YAML: a bracket is closed that is not opened [yaml]\n",
	},
	"NothingLeftOver": {
		map[string]string{"cm.yaml": " apiVersion: v1\n kind: ConfigMap\n metadata: {name: a}\n# end\n...\n---\n" + mistakenJSON + "\n...\n"}, "",
	},
}

const mistakenJSON = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}`
