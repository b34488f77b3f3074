package main

// mistakenPatches is a kustomization of a ConfigMap and a Deployment.
func mistakenPatches(kustomization string) map[string]string {
	return map[string]string{
		"cm.yaml": mistakenCM, "dep.yaml": mistakenWorkload, "kustomization.yaml": "resources: [cm.yaml, dep.yaml]\n" + kustomization,
	}
}

const (
	mistakenWorkload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web, tier: front}}\n    spec: {containers: [{name: web, image: nginx}]}\n"
	mistakenReplicas = "  patch: |-\n    - {op: add, path: /spec/replicas, value: 2}\n"
)

var mistakesOfTargets = map[string]mistake{
	"Name": {
		mistakenPatches("patches:\n- target: {kind: Deployment, name: wbe}\n" + mistakenReplicas),
		"kustomization.yaml:3:3: warning: the patch changes nothing: its target (kind Deployment, name wbe) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; did you mean \"web\"?\n",
	},
	"FarName": {
		mistakenPatches("patches:\n- target: {kind: Deployment, name: frontend}\n" + mistakenReplicas),
		"kustomization.yaml:3:3: warning: the patch changes nothing: its target (kind Deployment, name frontend) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; the resources of this kind are called web\n",
	},
	"Kind": {
		mistakenPatches("patches:\n- target: {kind: Deploymnet, name: web}\n" + mistakenReplicas),
		"kustomization.yaml:3:3: warning: the patch changes nothing: its target (kind Deploymnet, name web) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; did you mean kind \"Deployment\"?\n",
	},
	"Group": {
		mistakenPatches("patches:\n- target: {group: app, kind: Deployment, name: web}\n" + mistakenReplicas),
		"kustomization.yaml:3:3: warning: the patch changes nothing: its target (group app, kind Deployment, name web) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; there is Deployment web, which differs in what else the target asks for\n",
	},
	"Labels": {
		mistakenPatches("patches:\n- target: {labelSelector: app=web}\n" + mistakenReplicas),
		"kustomization.yaml:3:3: warning: the patch changes nothing: its target (labels app=web) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; the resources are ConfigMap a, Deployment web\n",
	},
	"JSON6902": {
		mistakenPatches("patchesJson6902:\n- target: {version: v1, kind: Deployment, name: web, group: apps}\n" + mistakenReplicas +
			"- target: {version: v1, kind: Deployment, name: wbe, group: apps}\n" + mistakenReplicas),
		"kustomization.yaml:6:3: warning: the patch changes nothing: its target (group apps, version v1, kind Deployment, name wbe) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; did you mean \"web\"?\n",
	},
	"OfABase": {
		map[string]string{
			"fleet.yaml": "kustomize:\n  dir: prod\n", "base/cm.yaml": mistakenCM,
			"base/kustomization.yaml": "resources: [cm.yaml]\nnamePrefix: x-\n",
			"prod/kustomization.yaml": "resources: [../base]\npatches:\n- target: {kind: ConfigMap, name: b}\n  patch: |-\n    - {op: add, path: /data/e, value: f}\n" +
				"- target: {kind: ConfigMap, name: a}\n  patch: |-\n    - {op: add, path: /data/e, value: f}\n",
		},
		"prod/kustomization.yaml:3:3: warning: the patch changes nothing: its target (kind ConfigMap, name b) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; the resources of this kind are called a\n",
	},
	"Component": {
		map[string]string{
			"fleet.yaml": "kustomize:\n  dir: prod\n", "prod/cm.yaml": mistakenCM, "prod/kustomization.yaml": "resources: [cm.yaml]\ncomponents: [../size]\n",
			"size/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: ConfigMap, name: a}\n" +
				"  patch: |-\n    - {op: add, path: /data/size, value: big}\n",
		}, "",
	},
	"DeletedLater": {
		map[string]string{
			"fleet.yaml": "kustomize:\n  dir: prod\n", "base/cm.yaml": mistakenCM, "base/dep.yaml": mistakenWorkload,
			"base/kustomization.yaml": "resources: [cm.yaml, dep.yaml]\npatches:\n- target: {kind: Deployment}\n" + mistakenReplicas,
			"prod/kustomization.yaml": "resources: [../base]\npatchesStrategicMerge:\n- |-\n  $patch: delete\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web}\n",
		}, "",
	},
	"Right": {
		mistakenPatches("namePrefix: x-\npatches:\n- target: {kind: Deployment, name: w.*}\n" + mistakenReplicas +
			"- target: {kind: Deployment, labelSelector: a=b}\n  patch: |-\n    {apiVersion: apps/v1, kind: Deployment, metadata: {name: any}, spec: {replicas: 3}}\n" +
			"- target: {kind: ConfigMap}\n  patch: |-\n    $patch: delete\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: any}\n"),
		"kustomization.yaml:7:3: warning: the patch changes nothing: its target (kind Deployment, labels a=b) matches no resource of the kustomization [unmatched]\n" +
			"    for every sample cluster; the resources are ConfigMap a, Deployment web\n",
	},
}

const mistakenService = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: [{port: 80}]\n  selector:\n    app: "

var mistakesOfServices = map[string]mistake{
	"Manifests": {
		map[string]string{"all.yaml": mistakenWorkload + "---\n" + mistakenService + "wbe\n"},
		"all.yaml:15:3: warning: Service web: the selector selects no pod of the bundle: no workload in the same namespace has the labels app=wbe [unmatched]\n" +
			"    the pods of Deployment web have app=web, tier=front\n",
	},
	"Template": {
		map[string]string{"Chart.yaml": mistakenChart, "templates/all.yaml": mistakenWorkload + "---\n" + mistakenService + "{{ .Values.app }}\n", "values.yaml": "app: wbe\n"},
		"templates/all.yaml:15:3: warning: Service web: the selector selects no pod of the bundle: no workload in the same namespace has the labels app=wbe [unmatched]\n" +
			"    the pods of Deployment web have app=web, tier=front\n",
	},
	"Kustomization": {
		map[string]string{
			"dep.yaml": mistakenWorkload, "svc.yaml": mistakenService + "wbe\n",
			"kustomization.yaml": "resources: [dep.yaml, svc.yaml]\nnamePrefix: x-\nlabels:\n- pairs: {team: a}\n  includeSelectors: true\n",
		},
		"svc.yaml:6:3: warning: Service x-web: the selector selects no pod of the bundle: no workload in the same namespace has the labels app=wbe, team=a [unmatched]\n" +
			"    the pods of Deployment x-web have app=web, team=a, tier=front\n",
	},
	"Right": {map[string]string{"all.yaml": mistakenWorkload + "---\n" + mistakenService + "web\n"}, ""},
	"Alone": {map[string]string{"all.yaml": mistakenCM + "---\n" + mistakenService + "web\n"}, ""},
}
