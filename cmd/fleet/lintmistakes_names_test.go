package main

import (
	"testing"
)

// What is no directory is named, with what to do.
func TestLintNoDirectory(t *testing.T) {
	dir := files(t, map[string]string{"apps/web/cm.yaml": mistakenCM, "apps/web/fleet.yaml": ""})
	cases := map[string]string{
		"apps/web/fleet.yaml": "error: apps/web/fleet.yaml is a file, and fleet lint reads whole directories: fleet lint apps/web\n",
		"apps/wbe":            "error: there is no directory apps/wbe; did you mean apps/web?\n",
		"apps/database":       "error: there is no directory apps/database; give one that exists, or none for the working directory\n",
		"shop/web":            "error: there is no directory shop/web, nor the one above it\n",
	}
	for arg, want := range cases {
		t.Run(arg, func(t *testing.T) {
			if out, notes, code := linted(t, dir, "--offline", arg); code != 1 || notes != want || out != "" {
				t.Errorf("code %d: %s%s", code, out, notes)
			}
		})
	}
}

// mistakesOfPaths name a file or directory that has another name.
var mistakesOfPaths = map[string]mistake{
	"ValuesFiles": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM, "values.yaml": "a: b\n", "values/production.yaml": "a: b\n", "values-stage.yaml": "a: b\n",
			"fleet.yaml": "helm:\n  chart: .\n  valuesFiles:\n  - values/prod.yaml\n  - values-staging.yaml\n  - production.yaml\n  - values-test.yaml\n",
		},
		"fleet.yaml:4:5: error: values file \"values/prod.yaml\" does not exist [file]\n    did you mean \"values/production.yaml\"?\n" +
			"fleet.yaml:5:5: error: values file \"values-staging.yaml\" does not exist [file]\n    did you mean \"values-stage.yaml\"?\n" +
			"fleet.yaml:6:5: error: values file \"production.yaml\" does not exist [file]\n    did you mean \"values/production.yaml\"?\n" +
			"fleet.yaml:7:5: error: values file \"values-test.yaml\" does not exist [file]\n    did you mean \"values-stage.yaml\"?\n",
	},
	"KustomizeDir": {
		map[string]string{
			"cm.yaml": mistakenCM, "overlays/production/kustomization.yaml": "resources: [../../cm.yaml]\n", "fleet.yaml": "kustomize:\n  dir: prod\n",
		},
		"fleet.yaml:2:8: warning: kustomize.dir \"prod\" does not exist: the bundle is deployed without it [file]\n    did you mean \"overlays/production\"?\n",
	},
	"FieldInAnOverlay": {
		map[string]string{
			"cm.yaml": mistakenCM, "dep.yaml": mistakenWorkload, "overlays/prod/dep_patch.yaml": "spec:\n  replica: 3\n", "overlays/prod/b.yaml": "# more\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndat: {}\n",
			"fleet.yaml": "targetCustomizations:\n- name: p\n  clusterSelector: {}\n  yaml: {overlays: [prod]}\n",
		},
		"overlays/prod/b.yaml:5:1: error: ConfigMap b: unknown field \"dat\" [unknown-field]\n    did you mean \"data\"?\n" +
			"overlays/prod/dep_patch.yaml:2:3: error: Deployment web: unknown field \"spec.replica\" [unknown-field]\n    did you mean \"replicas\"?\n",
	},
	"Overlay": {
		map[string]string{"cm.yaml": mistakenCM, "overlays/staging/cm.yaml": mistakenCM, "fleet.yaml": "yaml:\n  overlays: [stagng]\n"},
		"fleet.yaml:2:14: warning: overlay \"stagng\" changes nothing: there is no file in overlays/stagng [file]\n    did you mean \"staging\"?\n",
	},
	"Chart": {
		map[string]string{
			"charts/web/Chart.yaml": mistakenChart, "charts/web/templates/a.yaml": mistakenCM, "fleet.yaml": "helm:\n  chart: charts/wbe\n",
		},
		"fleet.yaml:2:10: error: helm.chart \"charts/wbe\" is no directory here, and nothing that can be downloaded [chart]\n    did you mean \"charts/web\"?\n",
	},
	"ChartElsewhere": {
		map[string]string{"charts/web/Chart.yaml": mistakenChart, "charts/web/templates/a.yaml": mistakenCM, "fleet.yaml": "helm:\n  chart: web\n"},
		"fleet.yaml:2:10: error: helm.chart \"web\" is no directory here, and nothing that can be downloaded [chart]\n    did you mean \"charts/web\"?\n",
	},
}

var mistakesOfCharts = map[string]mistake{
	"MissingValue": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  tag: {{ .Values.imge.tag }}\n", "values.yaml": "image: {tag: a}\n",
		},
		"templates/a.yaml:7:18: error: render: .Values.imge.tag: there is no value imge; did you mean image? [render]\n    for every sample cluster\n",
	},
	"ToYaml": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    {{ toYaml .Values.labels }}\n",
			"values.yaml": "labels: {a: b, c: d}\n",
		},
		"templates/a.yaml:6:5: error: ConfigMap a: unknown field \"c\" [unknown-field]\n" +
			"    probably toYaml writes several lines and nindent is missing: write {{- toYaml ... | nindent 4 }}\n",
	},
	"Unclosed": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/a.yaml": mistakenCM + "  {{- if .Values.a }}\n  b: c\n  {{- range .Values.b }}\n  c: d\n  {{- end }}\n"},
		"templates/a.yaml:7:1: error: template: this if has no end: the file ends before it is closed with {{ end }} [template]\n",
	},
}

var mistakesOfCriteria = map[string]mistake{
	"Dedented": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "targetCustomizations:\n- name: a\n  clusterSelector:\n  matchLabels:\n    env: prod\n  namespace: a\n"},
		"fleet.yaml:2:3: warning: customization \"a\" is never used: it has no criteria and matches no cluster [unreachable]\n" +
			"    matchLabels belongs below clusterSelector: indent it one level deeper\n" +
			"fleet.yaml:4:3: warning: unknown key \"matchLabels\" is ignored [unknown-key]\n" +
			"    it belongs below clusterSelector: indent it one level deeper\n",
	},
	"Plural": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "overrideTargets:\n- clusterSelectors:\n    matchLabels:\n      env: prod\n"},
		"fleet.yaml:2:3: warning: overrideTargets[0] has no criteria and matches no cluster [unreachable]\n" +
			"    clusterSelectors is no criterion; did you mean clusterSelector?\n" +
			"fleet.yaml:2:3: warning: unknown key \"clusterSelectors\" is ignored [unknown-key]\n" +
			"    did you mean \"clusterSelector\"?\n",
	},
	"OfAPartition": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "rolloutStrategy:\n  partitions:\n  - name: a\n    clusterSelector:\n    matchExpressions: []\n"},
		"fleet.yaml:3:5: warning: partition \"a\" selects no cluster [unreachable]\n    give it a clusterSelector, clusterName or clusterGroup\n" +
			"fleet.yaml:5:5: warning: unknown key \"matchExpressions\" is ignored [unknown-key]\n" +
			"    it belongs below clusterSelector: indent it one level deeper\n",
	},
	"Empty": {
		map[string]string{"cm.yaml": mistakenCM, "fleet.yaml": "targetCustomizations:\n- name: a\n  namespace: a\n"},
		"fleet.yaml:2:3: warning: customization \"a\" is never used: it has no criteria and matches no cluster [unreachable]\n" +
			"    clusterSelector: {} matches every cluster\n",
	},
}
