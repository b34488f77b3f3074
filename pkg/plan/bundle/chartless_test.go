package bundle

import "testing"

func TestTemplatesWithoutAChart(t *testing.T) {
	const add = " (add a Chart.yaml, with apiVersion: v2, name and version)"
	template := configMap + "data:\n  size: {{ .Values.size }}\n"
	noValue := []string{"d/templates/a.yaml:5:12: warning: there is no value size: without a Chart.yaml values come from helm.values alone, and fleet.yaml has none [unmatched]" + add}
	checkSilent(t, map[string]silent{
		"NoValues":        {tree: map[string]string{"d/templates/a.yaml": template}, found: noValue},
		"NoValuesInFleet": {tree: map[string]string{"d/templates/a.yaml": template, "d/fleet.yaml": "helm: {releaseName: a}\n"}, found: noValue},
		"ValuesFile": {
			tree:  map[string]string{"d/templates/a.yaml": template, "d/values.yaml": "size: 1\n", "d/fleet.yaml": "helm: {values: {a: b}}\n"},
			found: []string{"d/values.yaml:1:1: warning: values.yaml is not read: the directory has templates and no Chart.yaml [not-read]" + add},
		},
		"Helpers": {
			tree:  map[string]string{"d/templates/a.yaml": configMap, "d/templates/_helpers.tpl": "{{ define \"a\" }}{{ end }}"},
			found: []string{"d/templates/_helpers.tpl:1:1: warning: _helpers.tpl is not read: the directory has templates and no Chart.yaml [not-read]" + add},
		},
		"Given":         {why: "that works", tree: map[string]string{"d/templates/a.yaml": template, "d/fleet.yaml": "helm: {values: {size: 1}}\n"}},
		"GivenToSome":   {tree: map[string]string{"d/templates/a.yaml": template, "d/fleet.yaml": "targetCustomizations:\n- clusterName: a\n  helm: {valuesFrom: [{secretKeyRef: {name: a}}]}\n"}},
		"ByFleet":       {why: "Fleet gives these", tree: map[string]string{"d/templates/a.yaml": configMap + "data:\n  a: {{ .Values.global.fleet.clusterLabels.a }}\n"}},
		"Default":       {tree: map[string]string{"d/templates/a.yaml": configMap + "data:\n  a: {{ .Values.a | default 1 }}\n  b: {{ default 1 .Values.b }}\n"}},
		"NoneIsRead":    {tree: map[string]string{"d/templates/a.yaml": configMap + "data:\n  a: {{ .Release.Name }}\n"}},
		"Chart":         {tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": "a: 1", "d/templates/a.yaml": template, "d/templates/_h.tpl": ""}},
		"Kustomization": {tree: map[string]string{"d/kustomization.yaml": "resources: [templates/a.yaml]", "d/values.yaml": "a: 1", "d/templates/a.yaml": configMap}},
		"MisnamedChart": {
			why:   "that is the cause",
			tree:  map[string]string{"d/Chart.yml": "name: c\nversion: 1.0.0", "d/values.yaml": "a: 1", "d/templates/a.yaml": template},
			found: []string{`d/Chart.yml:1:1: warning: Chart.yml is not read as Chart.yaml [not-read] (did you mean "Chart.yaml"?)`},
		},
	})
}

func TestChartDirectoryWithoutAChart(t *testing.T) {
	const add = " (add a Chart.yaml to it, or remove helm.chart)"
	checkSilent(t, map[string]silent{
		"Dot": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/fleet.yaml": "helm:\n  chart: .\n"},
			found: []string{`d/fleet.yaml:2:10: warning: helm.chart "." has no Chart.yaml: the bundle is deployed without a chart [chart]` + add},
		},
		"PlainManifests": {
			why:  "they are deployed as such, so they are checked as such",
			tree: map[string]string{"d/web/a.yaml": "a: b\n", "d/fleet.yaml": "helm: {chart: ./web}\n"},
			found: []string{
				`d/fleet.yaml:1:15: warning: helm.chart "./web" has no Chart.yaml: the bundle is deployed without a chart [chart]` + add,
				"d/web/a.yaml:1:1: warning: nothing is left to deploy: no document of the bundle has a kind [empty] (add what is missing, or remove the directory to remove the bundle)",
				"d/web/a.yaml:1:1: warning: the document has neither apiVersion nor kind, so it is not deployed [manifest] (add what is missing: a .fleetignore that leaves nothing to deploy is an error)",
			},
		},
		"Below": {
			why:  "another directory is the chart",
			tree: map[string]string{"d/charts/web/Chart.yaml": "name: web\nversion: 1.0.0", "d/charts/web/templates/a.yaml": configMap, "d/fleet.yaml": "helm: {chart: charts}\n"},
			found: []string{
				"d/charts/web/Chart.yaml:1:1: warning: the chart in charts/web is not used: it belongs to the bundle of the directory above, which does not name it [not-read]" +
					" (put a fleet.yaml into d/charts/web, name it in paths of the GitRepo, or set helm.chart: charts/web)",
				`d/fleet.yaml:1:15: warning: helm.chart "charts" has no Chart.yaml: the bundle is deployed without a chart [chart] (did you mean "charts/web"?)`,
			},
		},
		"OfATarget": {
			why: "a customization that names none has that of the bundle",
			tree: map[string]string{
				"d/w/Chart.yaml": "name: w\nversion: 1.0.0", "d/x/a.yaml": configMap,
				"d/fleet.yaml": "helm: {chart: w}\ntargetCustomizations:\n- clusterName: a\n  helm: {values: {a: 1}}\n- clusterName: b\n  helm: {chart: x}\n",
			},
			found: []string{`d/fleet.yaml:6:17: warning: helm.chart "x" has no Chart.yaml: the bundle is deployed without a chart [chart]` + add},
		},
		"Misnamed": {
			tree:  map[string]string{"d/w/chart.yaml": "name: w\nversion: 1.0.0", "d/fleet.yaml": "helm: {chart: w}\n"},
			found: []string{`d/w/chart.yaml:1:1: warning: chart.yaml is not read as Chart.yaml [not-read] (did you mean "Chart.yaml"?)`},
		},
	})
}
