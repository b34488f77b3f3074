package main

// mistakesOfExports are objects that cannot be installed as they stand, or that are not
// written for a repository.
var mistakesOfExports = map[string]mistake{
	"GenerateName": {
		map[string]string{"cm.yaml": mistakenCM + "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: a-\n"},
		"cm.yaml:8:1: error: Job has metadata.generateName and no metadata.name, which Helm cannot install [manifest]\n",
	},
	"GenerateNameOfAChart": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: {{ .Release.Name }}-\n"},
		"templates/cm.yaml:4:3: error: ConfigMap: metadata.generateName without metadata.name, which Helm cannot install [manifest]\n    write metadata.name\n",
	},
	"Exported": {
		map[string]string{"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    meta.helm.sh/release-name: web\n  uid: 5\n  resourceVersion: \"7\"\n"},
		"cm.yaml:6:32: warning: ConfigMap a: metadata.annotations[meta.helm.sh/release-name] is not for a manifest [value]\n    Helm sets it itself; take it out\n" +
			"cm.yaml:7:8: error: ConfigMap a: metadata.uid must be a text, not a number [type]\n    put it in quotes\n" +
			"cm.yaml:7:8: warning: ConfigMap a: metadata.uid, metadata.resourceVersion are not for a manifest [value]\n    the cluster sets them itself; take them out\n",
	},
	"CRDOfTheBundle": {
		map[string]string{"a.yaml": mistakenOwnCRD, "b.yaml": "apiVersion: example.com/v1\nkind: Mill\nmetadata: {name: old}\n"},
		"b.yaml:2:7: warning: Mill old: the CRD of the kind is in the same bundle (a.yaml), and Helm installs nothing of a bundle before the cluster knows all its kinds [unknown-kind]\n" +
			"    put the CRD into a bundle of its own, which dependsOn names, or into crds/ of a chart\n",
	},
	"CRDOfAChart": {
		map[string]string{
			"Chart.yaml": mistakenChart, "crds/a.yaml": mistakenOwnCRD, "templates/b.yaml": "apiVersion: example.com/v1\nkind: Mill\nmetadata: {name: old}\n",
		}, "",
	},
}

const mistakenOwnCRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: mills.example.com}\nspec:\n" +
	"  group: example.com\n  scope: Namespaced\n  names: {kind: Mill, plural: mills}\n  versions: [{name: v1, served: true, storage: true}]\n"
