package bundle

import "testing"

func TestHooks(t *testing.T) {
	hook := func(name, events string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\n  annotations:\n    helm.sh/hook: " + events + "\n"
	}
	const known = "Helm knows pre-install, post-install, pre-upgrade, post-upgrade, pre-rollback, post-rollback, pre-delete, post-delete and test"
	checkSilent(t, map[string]silent{
		"Template": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/a.yaml": "# helm.sh/hook: no\n" + hook("a", "post-install, preinstall")},
			found: []string{`d/templates/a.yaml:7:5: warning: "preinstall" is no hook of Helm, so Helm does not deploy the object [value] (did you mean "pre-install"?)`},
		},
		"TemplateInOneLine": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/a.yaml": "metadata: {annotations: {helm.sh/hook: preinstall, a: b}}\n"},
			found: []string{`d/templates/a.yaml:1:26: warning: "preinstall" is no hook of Helm, so Helm does not deploy the object [value] (did you mean "pre-install"?)`},
		},
		"TemplateQuoted": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/a.yaml": hook("a", `"post-install,preinstall"`)},
			found: []string{`d/templates/a.yaml:6:5: warning: "preinstall" is no hook of Helm, so Helm does not deploy the object [value] (did you mean "pre-install"?)`},
		},
		"TemplatesWithoutAChart": {
			tree:  map[string]string{"d/templates/a.yaml": hook("a", "once # really")},
			found: []string{`d/templates/a.yaml:6:5: warning: "once" is no hook of Helm, so Helm does not deploy the object [value] (` + known + ")"},
		},
		"Manifest": {
			why:  "Fleet gives Helm no hooks of plain manifests",
			tree: map[string]string{"d/a.yaml": hook("a", "preinstall") + "---\n" + hook("b", "crd-install")},
			found: []string{
				`d/a.yaml:6:5: warning: "preinstall" is no hook of Helm, so the object is deployed like any other [value] (only objects of a chart can be hooks; did you mean "pre-install"?)`,
				`d/a.yaml:13:5: warning: "crd-install" is no hook of Helm, so the object is deployed like any other [value] (only objects of a chart can be hooks; Helm 3 installs the CRDs in crds/ of a chart before its templates)`,
			},
		},
		"ManifestKnown": {
			why:   "it is no hook, however right the word is",
			tree:  map[string]string{"d/a.yaml": hook("a", "pre-install")},
			found: []string{"d/a.yaml:6:5: warning: helm.sh/hook has no effect here: the object is deployed like any other [value] (only objects of a chart can be hooks)"},
		},
		"ManifestOfAList": {
			why:   "each object of a list has its line",
			tree:  map[string]string{"d/a.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: batch/v1\n  kind: Job\n  metadata:\n    name: a\n    annotations:\n      helm.sh/hook: pre-install\n"},
			found: []string{"d/a.yaml:9:7: warning: helm.sh/hook has no effect here: the object is deployed like any other [value] (only objects of a chart can be hooks)"},
		},
		"Known": {
			tree: map[string]string{
				"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/a.yaml": hook("a", "pre-install, Post-Upgrade,test-success") + "---\n" + hook("b", "{{ .Values.hook }}") + "---\n" + hook("c", `"pre-install{{ if .Values.a }},no{{ end }}"`),
				"d/templates/b.tpl": "helm.sh/hook-weight: \"1\"\n",
			},
		},
	})
}
