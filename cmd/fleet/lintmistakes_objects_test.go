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

var mistakesOfEncodings = map[string]mistake{
	"PEM": {
		map[string]string{"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  tls.crt: |\n    -----BEGIN CERTIFICATE-----\n    MIIB\n---\n" +
			"apiVersion: fleet.cattle.io/v1alpha1\nkind: GitRepo\nmetadata: {name: a}\nspec:\n  repo: https://example.com/a\n  caBundle: |\n    -----BEGIN CERTIFICATE-----\n    MIIB\n"},
		"s.yaml:5:12: error: Secret a: data[tls.crt] is PEM, and the base64 of it is wanted [type]\n    a Secret takes plain text in stringData\n" +
			"s.yaml:14:13: error: GitRepo a: spec.caBundle is PEM, and the base64 of it is wanted [type]\n    write what \"base64 -w0 FILE\" prints\n",
	},
	"EncodedPEM": {
		map[string]string{"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  tls.crt: LS0tLS1CRUdJTiBD\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  ca.crt: LS0tLS1CRUdJTiBD\n  other: LS0tLS1CRUdJTiBD\n---\n" +
			"apiVersion: fleet.cattle.io/v1alpha1\nkind: GitRepo\nmetadata: {name: a}\nspec:\n  repo: https://example.com/a\n  caBundle: TFMwdExTMUNSVWRKVGlCRA==\n"},
		"s.yaml:5:12: warning: Secret a: stringData[tls.crt] is the base64 of PEM, and stringData of a Secret takes the text as it is [value]\n    write the PEM itself, or move it to data\n" +
			"s.yaml:11:11: warning: ConfigMap a: data[ca.crt] is the base64 of PEM, and data of a ConfigMap takes the text as it is [value]\n    write the PEM itself\n" +
			"s.yaml:19:13: warning: GitRepo a: spec.caBundle is the base64 of base64, and it is decoded once [value]\n    write the base64 of the PEM itself\n",
	},
}

var mistakesOfMounts = map[string]mistake{
	"Mount": {
		map[string]string{"job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n" +
			"      containers:\n      - name: a\n        image: b\n        volumeMounts:\n        - {name: dta, mountPath: /a}\n        - {name: data, mountPath: /b}\n" +
			"        - {name: other, mountPath: /c}\n      volumes:\n      - {name: data, emptyDir: {}}\n"},
		"job.yaml:12:18: error: Job a: spec.template.spec.containers[0].volumeMounts[0].name: the pod has no volume \"dta\" [value]\n" +
			"    did you mean \"data\"?\n" +
			"job.yaml:14:18: error: Job a: spec.template.spec.containers[0].volumeMounts[2].name: the pod has no volume \"other\" [value]\n" +
			"    add it to the volumes of the pod\n",
	},
	"MountOfAClaim": {
		map[string]string{"s.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {a: b}}\n  serviceName: a\n  template:\n" +
			"    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - {name: a, image: b, volumeMounts: [{name: data, mountPath: /a}]}\n" +
			"  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"}, "",
	},
}
