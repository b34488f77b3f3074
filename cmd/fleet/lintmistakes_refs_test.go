package main

import (
	"strings"
)

// mistakenPod is a Deployment whose pods have more in their spec and in their container.
func mistakenPod(spec, container string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n" +
		"    spec:\n" + spec + "      containers:\n      - name: web\n        image: nginx\n        ports: [{name: http, containerPort: 80}]\n" + container
}

const (
	mistakenConfig  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-config}\n"
	mistakenSecret  = "apiVersion: v1\nkind: Secret\nmetadata: {name: web-secret}\n"
	mistakenIngress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec:\n  defaultBackend: {service: {name: BACK, port: {number: 80}}}\n" +
		"  rules:\n  - http:\n      paths:\n      - {path: /, pathType: Prefix, backend: {service: {name: BACK, port: {number: 80}}}}\n"
	envFromConfig = "        envFrom:\n        - configMapRef: {name: web-confg}\n"
)

// referring is a bundle of a Deployment with references, a ConfigMap, a Secret and more.
func referring(spec, container, more string) map[string]string {
	return map[string]string{"dep.yaml": mistakenPod(spec, container), "objects.yaml": mistakenConfig + "---\n" + mistakenSecret + more}
}

// References to what the bundle has under a name that is one slip away. Any other name
// may be that of an object from elsewhere.
var mistakesOfReferences = map[string]mistake{
	"Environment": {
		referring("", "        envFrom:\n        - configMapRef: {name: web-confg}\n        - secretRef: {name: web-secrte}\n"+
			"        env:\n        - {name: A, valueFrom: {configMapKeyRef: {name: web-cnofig, key: a}}}\n        - {name: B, valueFrom: {secretKeyRef: {name: web-sceret, key: a}}}\n", ""),
		"dep.yaml:14:32: warning: Deployment web: spec.template.spec.containers[0].envFrom[0].configMapRef.name: the bundle has no ConfigMap \"web-confg\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n" +
			"dep.yaml:15:29: warning: Deployment web: spec.template.spec.containers[0].envFrom[1].secretRef.name: the bundle has no Secret \"web-secrte\" in this namespace [unmatched]\n" +
			"    did you mean \"web-secret\"?\n" +
			"dep.yaml:17:57: warning: Deployment web: spec.template.spec.containers[0].env[0].valueFrom.configMapKeyRef.name: the bundle has no ConfigMap \"web-cnofig\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n" +
			"dep.yaml:18:54: warning: Deployment web: spec.template.spec.containers[0].env[1].valueFrom.secretKeyRef.name: the bundle has no Secret \"web-sceret\" in this namespace [unmatched]\n" +
			"    did you mean \"web-secret\"?\n",
	},
	"Volumes": {
		referring("      volumes:\n      - {name: a, configMap: {name: wbe-config}}\n      - {name: b, secret: {secretName: web_secret}}\n      - name: c\n        projected:\n          sources:\n          - configMap: {name: web-conffig}\n", "", ""),
		"dep.yaml:10:37: warning: Deployment web: spec.template.spec.volumes[0].configMap.name: the bundle has no ConfigMap \"wbe-config\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n" +
			"dep.yaml:11:40: warning: Deployment web: spec.template.spec.volumes[1].secret.secretName: the bundle has no Secret \"web_secret\" in this namespace [unmatched]\n" +
			"    did you mean \"web-secret\"?\n" +
			"dep.yaml:15:31: warning: Deployment web: spec.template.spec.volumes[2].projected.sources[0].configMap.name: the bundle has no ConfigMap \"web-conffig\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n",
	},
	"Generated": {
		map[string]string{
			"dep.yaml": mistakenPod("", envFromConfig), "kustomization.yaml": "resources: [dep.yaml]\nconfigMapGenerator:\n- name: web-config\n  literals: [a=b]\n",
		},
		"dep.yaml:14:32: warning: Deployment web: spec.template.spec.containers[0].envFrom[0].configMapRef.name: the bundle has no ConfigMap \"web-confg\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n",
	},
	"Template": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/dep.yaml": mistakenPod("", envFromConfig), "templates/cm.yaml": mistakenConfig},
		"templates/dep.yaml:14:32: warning: Deployment web: spec.template.spec.containers[0].envFrom[0].configMapRef.name: the bundle has no ConfigMap \"web-confg\" in this namespace [unmatched]\n" +
			"    did you mean \"web-config\"?\n",
	},
	"Port": {
		map[string]string{"all.yaml": mistakenPod("", "") + "---\n" + strings.ReplaceAll(mistakenService, "port: 80", "port: 80, targetPort: htpp") + "web\n"},
		"all.yaml:18:34: warning: Service web: spec.ports[0].targetPort: no port of the pods that the Service selects is called \"htpp\" [unmatched]\n    did you mean \"http\"?\n",
	},
	"Backend": {
		map[string]string{"all.yaml": mistakenPod("", "") + "---\n" + mistakenService + "web\n", "ing.yaml": strings.ReplaceAll(mistakenIngress, "BACK", "wbe")},
		"ing.yaml:5:36: warning: Ingress web: spec.defaultBackend.service.name: the bundle has no Service \"wbe\" in this namespace [unmatched]\n    did you mean \"web\"?\n" +
			"ing.yaml:9:63: warning: Ingress web: spec.rules[0].http.paths[0].backend.service.name: the bundle has no Service \"wbe\" in this namespace [unmatched]\n    did you mean \"web\"?\n",
	},
	"Right":            {referring("", strings.ReplaceAll(envFromConfig, "confg", "config"), ""), ""},
	"Far":              {referring("", "        envFrom:\n        - configMapRef: {name: db-config}\n        - configMapRef: {name: web-config-2}\n        - secretRef: {name: web-config}\n", ""), ""},
	"Optional":         {referring("", strings.ReplaceAll(envFromConfig, "}", ", optional: true}"), ""), ""},
	"TwoNear":          {referring("", envFromConfig, "---\n"+strings.ReplaceAll(mistakenConfig, "config", "confag")), ""},
	"AnotherNamespace": {referring("", envFromConfig, "---\n"+strings.ReplaceAll(mistakenConfig, "name: web-config", "name: web-confg, namespace: b")), ""},
	"OtherBundle": {
		map[string]string{"a/dep.yaml": mistakenPod("", envFromConfig), "a/fleet.yaml": "", "a/cm.yaml": mistakenConfig, "b/fleet.yaml": "", "b/cm.yaml": strings.ReplaceAll(mistakenConfig, "config", "confg")}, "",
	},
	"MadeByAnOperator": {
		map[string]string{
			"a/fleet.yaml": "", "a/dep.yaml": mistakenPod("", "        envFrom: [{secretRef: {name: web-secrets}}]\n"), "a/objects.yaml": mistakenSecret,
			"crd/fleet.yaml": "", "crd/crd.yaml": mistakenCRD, "a/external.yaml": "apiVersion: acme.io/v1\nkind: Thing\nmetadata: {name: a}\nspec: {target: {name: web-secrets}}\n",
		}, "",
	},
	"MadeByAHook": {
		map[string]string{
			"Chart.yaml": mistakenChart, "templates/dep.yaml": mistakenPod("", envFromConfig), "templates/cm.yaml": mistakenConfig,
			"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web-confg\n  annotations: {helm.sh/hook: pre-install}\n",
		}, "",
	},
	"OtherPort": {
		map[string]string{"all.yaml": mistakenPod("", "") + "---\n" + strings.ReplaceAll(mistakenService, "port: 80", "port: 80, targetPort: https") + "web\n"}, "",
	},
}

const mistakenCRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.acme.io}\nspec:\n  group: acme.io\n  scope: Namespaced\n" +
	"  names: {kind: Thing, plural: things, singular: thing}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n" +
	"    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n"

// Fields of Ingress as they were before networking.k8s.io/v1.
var mistakesOfIngresses = map[string]mistake{
	"Old": {
		map[string]string{"ing.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec:\n  backend: {}\n  rules:\n  - http:\n      paths:\n" +
			"      - path: /\n        pathType: Prefix\n        backend:\n          serviceName: web\n          servicePort: 80\n"},
		"ing.yaml:5:3: error: Ingress web: unknown field \"spec.backend\" [unknown-field]\n    networking.k8s.io/v1 has defaultBackend in its place\n" +
			"ing.yaml:12:11: error: Ingress web: unknown field \"spec.rules[0].http.paths[0].backend.serviceName\" [unknown-field]\n" +
			"    networking.k8s.io/v1 has service: {name: ...} in its place\n" +
			"ing.yaml:13:11: error: Ingress web: unknown field \"spec.rules[0].http.paths[0].backend.servicePort\" [unknown-field]\n" +
			"    networking.k8s.io/v1 has service: {port: {number: ...}} in its place, or {port: {name: ...}}\n",
	},
	"OtherKind": {
		map[string]string{"cm.yaml": mistakenCM + "serviceName: a\n"},
		"cm.yaml:7:1: error: ConfigMap a: unknown field \"serviceName\" [unknown-field]\n",
	},
}

// Entries of images in a kustomization that no resource has.
var mistakesOfImages = map[string]mistake{
	"Near": {
		mistakenPatches("images:\n- {name: nginx, newTag: '2'}\n- {name: ngnix, newTag: '2'}\n"),
		"kustomization.yaml:4:3: warning: the entry of images changes nothing: no image of the resources is called \"ngnix\" [unmatched]\n" +
			"    for every sample cluster; did you mean \"nginx\"?\n",
	},
	"Far": {
		mistakenPatches("images:\n- {name: 'registry.example.com:5000/web', newTag: '2'}\n"),
		"kustomization.yaml:3:3: warning: the entry of images changes nothing: no image of the resources is called \"registry.example.com:5000/web\" [unmatched]\n" +
			"    for every sample cluster; the images are nginx\n",
	},
	"SameTag": {
		map[string]string{
			"dep.yaml":           strings.ReplaceAll(mistakenWorkload, "nginx", "'registry.example.com:5000/nginx:2@sha256:abc'"),
			"kustomization.yaml": "resources: [dep.yaml]\nimages:\n- {name: 'registry.example.com:5000/nginx', newTag: '2'}\n",
		}, "",
	},
	"Pattern": {mistakenPatches("images:\n- {name: '.*ginx', newTag: '2'}\n"), ""},
	"Chained": {mistakenPatches("images:\n- {name: nginx, newName: httpd}\n- {name: httpd, newTag: '3'}\n"), ""},
	"OfABase": {
		map[string]string{
			"fleet.yaml": "kustomize: {dir: prod}\n", "base/dep.yaml": mistakenWorkload, "base/kustomization.yaml": "resources: [dep.yaml]\nimages:\n- {name: nginx, newName: httpd}\n",
			"prod/kustomization.yaml": "resources: [../base]\nimages:\n- {name: httpd, newTag: '3'}\n",
		}, "",
	},
	"Component": {
		map[string]string{
			"fleet.yaml": "kustomize: {dir: prod}\n", "prod/dep.yaml": mistakenWorkload, "prod/kustomization.yaml": "resources: [dep.yaml]\ncomponents: [../tag]\n",
			"tag/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n- {name: other, newTag: '3'}\n",
		}, "",
	},
}
