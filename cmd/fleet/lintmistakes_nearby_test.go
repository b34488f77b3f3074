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

// chartOf is a chart with values.yaml, a template that has one more line, and
// options.
func chartOf(values, template, options string) map[string]string {
	return map[string]string{
		"Chart.yaml": mistakenChart, "values.yaml": values, "fleet.yaml": options,
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  " + template + "\n",
	}
}

const (
	imageValues = "replicaCount: 1\nimage: {tag: a, flavor: b}\n"
	imageTag    = "size: {{ .Values.image.tag }}"
	imageOfAll  = "size: {{ .Values.image.tag }}-{{ .Values.replicaCount }}"
)

// ofUnread is what is said of a value that no template reads.
func ofUnread(at, key string) string {
	return "fleet.yaml:" + at + ": warning: no template of the chart reads the value " + key + " [unused-values]\n"
}

// with is a tree with more files: names and their texts by turns.
func with(tree map[string]string, more ...string) map[string]string {
	for i := 0; i+1 < len(more); i += 2 {
		tree[more[i]] = more[i+1]
	}
	return tree
}

// Values that nothing reads or sets, where the chart has one that is one slip away.
var mistakesOfChartValues = map[string]mistake{
	"KeyInFleetYAML": {
		chartOf(imageValues, imageOfAll, "helm:\n  values:\n    replicacount: 2\n    image:\n      tga: b\n"),
		"fleet.yaml:3:5: warning: no template of the chart reads the value replicacount [unused-values]\n    did you mean replicaCount?\n" +
			"fleet.yaml:5:7: warning: no template of the chart reads the value image.tga [unused-values]\n    did you mean image.tag?\n",
	},
	"KeyOfACustomization": {
		chartOf(imageValues, imageOfAll, "targetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm:\n    values: {replica_count: 2}\n"),
		"fleet.yaml:4:14: warning: no template of the chart reads the value replica_count [unused-values]\n    did you mean replicaCount?\n",
	},
	"KeyInValuesFile": {
		map[string]string{
			"web/Chart.yaml": mistakenChart, "web/values.yaml": imageValues, "web/templates/a.yaml": mistakenCM + "  " + imageOfAll + "{{ .Values.image.flavor }}\n",
			"fleet.yaml": "helm:\n  chart: web\n  valuesFiles: [prod.yaml]\n", "prod.yaml": "image:\n  flvor: b\n",
		},
		"prod.yaml:2:3: warning: no template of the chart reads the value image.flvor [unused-values]\n    did you mean image.flavor?\n",
	},
	"NullInFleetYAML": {
		chartOf("image: {tag: a}\n", imageTag, "helm:\n  values:\n    image: ~\n"),
		"templates/a.yaml:5:19: error: render: .Values.image.tag: there is no value image: null in the bundle's values takes the default of the chart away (fleet.yaml:3) [render]\n" +
			"    for every sample cluster\n",
	},
	"NullOfACustomization": {
		map[string]string{
			"app/Chart.yaml": mistakenChart, "app/values.yaml": "image: {tag: a}\n", "app/templates/a.yaml": mistakenCM + "  " + imageTag + "\n", "app/prod.yaml": "# prod\nimage:\n",
			"app/fleet.yaml": "targetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm: {valuesFiles: [prod.yaml]}\n",
		},
		"app/templates/a.yaml:7:19: error: render: .Values.image.tag: there is no value image: null in the bundle's values takes the default of the chart away (prod.yaml:2) [render]\n" +
			"    1 of 2 sample clusters: env=prod\n",
	},
	"TemplateOfAll":      {chartOf(imageValues, imageOfAll+"{{ toJson .Values | len }}", "helm:\n  values: {replicacount: 2}\n"), ""},
	"TemplateOfAMapping": {chartOf(imageValues, imageOfAll+"{{ toJson .Values.image | len }}", "helm:\n  values: {image: {tga: b}}\n"), ""},
	"KeyThatIsRead":      {chartOf(imageValues, imageOfAll+"{{ with .Values.image }}{{ .tga }}{{ end }}", "helm:\n  values: {image: {tga: b}}\n"), ""},
	"BothKeys":           {chartOf(imageValues, imageOfAll, "helm:\n  values: {image: {tag: a, tga: b}}\n"), ""},
	"KeyInAComment":      {chartOf(imageValues+"# replicacount: 1\n", imageOfAll, "helm:\n  values: {replicacount: 2}\n"), ""},
	"KeyOfASubchart":     {withSubchart("helm:\n  values: {wbe: {a: b}, imgae: {a: b}}\n"), ""},
	"FarKey": {
		chartOf(imageValues, imageOfAll, "helm:\n  values:\n    replicas: 2\n    image: {tags: [b], url: c}\n    extra: {a: b}\n"),
		ofUnread("3:5", "replicas") + ofUnread("4:13", "image.tags") + ofUnread("4:24", "image.url") + ofUnread("5:5", "extra"),
	},
	"FarKeyOfACustomization": {
		chartOf(imageValues, imageOfAll+"{{ include \"x\" . }}{{ template \"x\" $ }}{{ define \"x\" }}{{ .Release.Name }}{{ end }}",
			"targetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm:\n    values: {extra: 2}\n"),
		ofUnread("4:14", "extra"),
	},
	"FarKeyOfEvaluatedTexts": {chartOf(imageValues, imageOfAll+"{{ tpl .Values.image.flavor . }}", "helm:\n  values: {extra: 2}\n"), ""},
	"FarKeyOfAContext":       {chartOf(imageValues, imageOfAll+"{{ include \"x\" (dict \"c\" .) }}{{ define \"x\" }}{{ len (toJson .c.Values) }}{{ end }}", "helm:\n  values: {extra: 2}\n"), ""},
	"FarKeyOfAnAlias":        {chartOf(imageValues, imageOfAll+"{{ $v := .Values }}{{ len (toJson $v) }}", "helm:\n  values: {extra: 2}\n"), ""},
	"FarKeyByName":           {chartOf(imageValues, imageOfAll+"{{ index .Values.image \"extra\" }}", "helm:\n  values: {extra: 2, image: {extra: b}}\n"), ""},
	"FarKeyForAnchors":       {chartOf(imageValues, imageOfAll, "helm:\n  values:\n    x-all: {a: b}\n    all: &all {tag: b}\n    none: null\n    global: {a: b}\n    image: *all\n"), ""},
	"FarKeyOfASubchart":      {withSubchart("helm:\n  values: {zebra: {a: b}}\n"), ""},
	"FarKeyOfALibrary":       {with(chartOf(imageValues, imageOfAll, "helm:\n  values: {zebra: 1}\n"), "Chart.yaml", mistakenChart+"dependencies: [{name: common, version: 1.0.0}]\n", "charts/common/Chart.yaml", "apiVersion: v2\nname: common\nversion: 1.0.0\ntype: library\n"), ""},
	"FarKeyInAValuesFile":    {with(chartOf(imageValues, imageOfAll, "helm: {chart: ., valuesFiles: [v.yaml]}\n"), "v.yaml", "zebra: 1\n"), ""},
	"FarKeyInASchema":        {with(chartOf(imageValues, imageOfAll, "helm: {values: {zebra: 1}}\n"), "values.schema.json", "{\"properties\": {\"zebra\": {}}}"), ""},
	"FarKeyOfAnotherChart": {
		with(chartOf(imageValues, imageOfAll, "helm: {chart: ., values: {zebra: 1}}\ntargetCustomizations:\n- clusterSelector: {matchLabels: {env: prod}}\n  helm: {chart: other}\n"),
			"other/Chart.yaml", mistakenChart, "other/templates/a.yaml", mistakenCM+"  zebra: \"{{ .Values.zebra }}\"\n"), "",
	},
	"KeyNoTemplateReads": {chartOf(imageValues+"labels: {tier: a}\n", imageOfAll, "helm:\n  values: {labels: {teir: b}}\n"), ""},
	"MergedDefaults":     {chartOf("base: &b {tag: a}\nimage: {<<: *b, tgs: c}\n", "a: {{ .Values.image.tgs }}", "helm:\n  values: {image: {tag: b}}\n"), ""},
	"ValueInATemplate": {
		chartOf("image: {tag: a}\nflavor: b\n", "size: {{ .Values.image.tga }}\n  env: {{ $.Values.flvor | quote }}", ""),
		"templates/a.yaml:5:12: warning: there is no value image.tga in the chart or in fleet.yaml [unmatched]\n    did you mean .Values.image.tag?\n" +
			"templates/a.yaml:6:12: warning: there is no value flvor in the chart or in fleet.yaml [unmatched]\n    did you mean .Values.flavor?\n",
	},
	"ValueInACondition": {
		chartOf("ingress: {enabled: true}\n", "{{ if .Values.ingress.enbled }}a: b{{ end }}", ""),
		"templates/a.yaml:5:9: warning: there is no value ingress.enbled in the chart or in fleet.yaml [unmatched]\n    did you mean .Values.ingress.enabled?\n",
	},
	"OptionalValue":     {chartOf(imageValues, imageOfAll+"{{ if .Values.replicacount }}-{{ .Values.replicacount }}{{ end }}", ""), ""},
	"ValueWithADefault": {chartOf(imageValues, imageOfAll+"{{ .Values.image.tga | default 1 }}", ""), ""},
	"ValueOfFleetYAML":  {chartOf(imageValues, imageOfAll+"-{{ .Values.image.tga }}", "helm:\n  values: {image: {tga: x}}\n"), ""},
	"ValueOfAnyPlace":   {chartOf(imageValues, "a: {{ .Values.image.tga }}", "helm:\n  valuesFrom:\n  - configMapKeyRef: {name: a, namespace: b, key: c}\n"), ""},
	"PluralOfAValue":    {chartOf("hosts: [a]\n", "a: {{ first .Values.hosts }}-{{ .Values.host }}", ""), ""},
}

// withSubchart is a chart with a subchart web and a dependency.
func withSubchart(options string) map[string]string {
	tree := chartOf("wbe: {a: a}\nimage: {a: b}\nweb: {a: c}\n", "a: {{ .Values.image.a }}{{ .Values.web.a }}", options)
	tree["charts/imgae/Chart.yaml"] = "apiVersion: v2\nname: imgae\nversion: 1.0.0\n"
	return tree
}

// Versions of charts that are taken from the repository.
var mistakesOfChartVersions = map[string]mistake{
	"Another": {
		chartOf("", "a: b", "helm:\n  version: 2.0.0\n"),
		"fleet.yaml:2:12: warning: helm.version \"2.0.0\" is ignored: the chart is the directory . of the repository, and its version is 1.0.0 [unknown-key]\n" +
			"    remove it, or name the Helm repository of the chart in helm.repo\n",
	},
	"Same":  {chartOf("", "a: b", "helm:\n  version: 1.0.0\n"), ""},
	"Range": {chartOf("", "a: b", "helm:\n  chart: .\n  version: 1.x\n"), ""},
}

// comparing is a bundle of a Deployment and a ConfigMap, with a comparePatch.
func comparing(patch string) map[string]string {
	return map[string]string{"all.yaml": mistakenWorkload + "---\n" + mistakenCM, "fleet.yaml": "diff:\n  comparePatches:\n  - " + patch + "\n    jsonPointers: [/spec/replicas]\n"}
}

const ofComparePatch = " warning: diff.comparePatches[0] matches no object of the bundle: "

// Entries of diff.comparePatches for nothing that the bundle has.
var mistakesOfComparePatches = map[string]mistake{
	"Kind": {
		comparing("kind: Deploymnet\n    apiVersion: apps/v1\n    name: web"),
		"fleet.yaml:3:11:" + ofComparePatch + "none has the kind \"Deploymnet\" [unmatched]\n    did you mean \"Deployment\"?\n",
	},
	"Name": {
		comparing("kind: Deployment\n    apiVersion: apps/v1\n    name: wbe"),
		"fleet.yaml:5:11:" + ofComparePatch + "no Deployment is called \"wbe\" [unmatched]\n    did you mean \"web\"?\n",
	},
	"APIVersion": {
		comparing("kind: Deployment\n    apiVersion: app/v1\n    name: web"),
		"fleet.yaml:4:17:" + ofComparePatch + "Deployment web has another apiVersion than \"app/v1\" [unmatched]\n    it is \"apps/v1\"\n",
	},
	"Far": {
		comparing("kind: Secret\n    apiVersion: v1\n    name: web"),
		"fleet.yaml:3:11:" + ofComparePatch + "none has the kind \"Secret\" [unmatched]\n    what is not in the bundle is not compared\n",
	},
	"Right":    {comparing("kind: Deployment\n    apiVersion: apps/v1\n    name: web\n    namespace: other"), ""},
	"Patterns": {comparing("kind: Deploy*\n    apiVersion: apps/v1beta1\n    name: w.*"), ""},
	"Open":     {comparing("kind: Deployment\n    apiVersion: apps/v1"), ""},
	"Overlay": {
		map[string]string{
			"cm.yaml": mistakenCM, "overlays/prod/dep.yaml": mistakenWorkload,
			"fleet.yaml": "yaml: {overlays: [prod]}\ndiff:\n  comparePatches:\n  - {kind: Deployment, apiVersion: apps/v1, name: web, jsonPointers: [/spec/replicas]}\n",
		}, "",
	},
	"Chart": {chartOf("", "a: b", "diff:\n  comparePatches:\n  - {kind: Deployment, apiVersion: apps/v1, name: web, jsonPointers: [/spec/replicas]}\n"), ""},
}
