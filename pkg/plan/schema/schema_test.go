package schema

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx
        ports:
        - containerPort: 80
        resources:
          limits: {cpu: 100m, memory: 1Gi}
`

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mills.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Mill, plural: mills}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [wings]
            properties:
              wings: {type: integer}
              grain: {type: string, enum: [rye, wheat]}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
              notes: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
  - name: v1alpha1
    served: false
    storage: false
`

const mill = `apiVersion: example.com/v1
kind: Mill
metadata: {name: old}
spec:
  wings: 4
  grain: rye
  extra: {any: [1]}
  notes: {a: b}
  port: http
`

// found returns the faults in a file of manifests.
func found(t *testing.T, kubernetes, text string, crds ...string) []string {
	t.Helper()
	kinds, err := New(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(crds, crd, text) {
		for _, o := range Objects([]byte(doc)) {
			kinds.Add(o)
		}
	}
	var out []string
	for _, f := range kinds.Findings(Bundle{Dir: "app", Files: map[string][]byte{"a.yaml": []byte(text)}, Manifests: []string{"a.yaml"}}) {
		line := f.String()
		if f.Hint != "" {
			line += " (" + f.Hint + ")"
		}
		out = append(out, line)
	}
	return out
}

// Each mistake is found at its place, and nothing else is.
func TestFindings(t *testing.T) {
	swap := strings.Replace
	cases := map[string]struct {
		kubernetes, text string
		want             []string
	}{
		"Good":       {"", deployment + "---\n" + mill, nil},
		"GoodInList": {"", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n", nil},
		"UnknownField": {"", swap(deployment, "replicas:", "replica:", 1), []string{
			`app/a.yaml:7:3: error: Deployment web: unknown field "spec.replica" [unknown-field] (did you mean "replicas"?)`}},
		"CaseCounts": {"", swap(deployment, "containerPort:", "containerport:", 1), []string{
			`app/a.yaml:18:11: error: Deployment web: unknown field "spec.template.spec.containers[0].ports[0].containerport" [unknown-field] (did you mean "containerPort"?)`}},
		"Whole": {"", swap(deployment, "replicas: 2", `replicas: "2"`, 1), []string{
			`app/a.yaml:7:13: error: Deployment web: spec.replicas must be a whole number, not a text [type]`}},
		"Fraction": {"", swap(deployment, "replicas: 2", `replicas: 2.5`, 1), []string{
			`app/a.yaml:7:13: error: Deployment web: spec.replicas must be a whole number [type]`}},
		"List": {"", swap(deployment, "- containerPort: 80", "  containerPort: 80", 1), []string{
			`app/a.yaml:17:9: error: Deployment web: spec.template.spec.containers[0].ports must be a list, not a mapping [type]`}},
		"Quantity": {"", swap(deployment, "memory: 1Gi", "memory: 1 GB", 1), []string{
			`app/a.yaml:20:39: error: Deployment web: spec.template.spec.containers[0].resources.limits.memory must be a quantity such as 100m or 1Gi [type]`}},
		"LabelValue": {"", swap(deployment, "labels: {app: web}", "labels: {app: 'a b'}", 1), []string{
			`app/a.yaml:5:17: error: Deployment web: metadata.labels.app is not possible: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character [value]`}},
		"LabelNumber": {"", swap(deployment, "labels: {app: web}", "labels: {app: 1}", 1), []string{
			`app/a.yaml:5:17: error: Deployment web: metadata.labels.app must be a text, not a number [type] (put it in quotes)`}},
		"Operator": {"", swap(deployment, "matchLabels: {app: web}", "matchExpressions:\n    - key: app\n      operator: Is\n      values: [web]", 1), []string{
			`app/a.yaml:11:17: error: Deployment web: spec.selector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist [value]`}},
		"SelectorOtherValue": {"", swap(deployment, "      labels: {app: web}", "      labels: {app: wbe}", 1), []string{
			`app/a.yaml:9:24: error: Deployment web: spec.selector.matchLabels.app must be a label of spec.template.metadata.labels with the same value [value]`}},
		"SelectorNoLabels": {"", swap(deployment, "      labels: {app: web}", "      name: web", 1), []string{
			`app/a.yaml:9:24: error: Deployment web: spec.selector.matchLabels.app must be a label of spec.template.metadata.labels with the same value [value]`}},
		"SelectorOfOthers": {"", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {accessModes: [ReadWriteOnce], resources: {}, selector: {matchLabels: {app: web}}}\n", nil},
		"UnknownKindOfKubernetes": {"", swap(deployment, "kind: Deployment", "kind: Deploymet", 1), []string{
			`app/a.yaml:2:7: error: Deploymet web: kind "Deploymet" is unknown: apps/v1 has none of that name [unknown-kind] (did you mean "Deployment"?)`}},
		"WrongGroup": {"", swap(deployment, "apps/v1", "v1", 1), []string{
			`app/a.yaml:1:13: error: Deployment web: kind "Deployment" is unknown: v1 has none of that name [unknown-kind] (it is in apps/v1)`}},
		"UnknownKindOnce": {"", "apiVersion: cert.io/v1\nkind: Cert\nmetadata: {name: a}\n---\napiVersion: cert.io/v1\nkind: Cert\nmetadata: {name: b}\n", []string{
			`app/a.yaml:2:7: warning: Cert a: kind "Cert" of "cert.io/v1" is unknown: neither Kubernetes nor a CRD here has it [unknown-kind] (where its CRD comes from elsewhere, give it with --crd-file; agents wait until the cluster has the kind)`}},
		"Removed": {"", swap(deployment, "apps/v1", "apps/v1beta2", 1), []string{
			`app/a.yaml:1:13: error: Deployment web: Kubernetes 1.36 does not serve Deployment of apps/v1beta2; 1.16 removed it [api-version] (use Deployment of apps/v1)`}},
		"ServedThen": {"v1.10.0", swap(deployment, "apps/v1", "apps/v1beta2", 1), []string{
			`app/a.yaml:1:13: warning: Deployment web: Deployment of apps/v1beta2 is deprecated since Kubernetes 1.9; 1.16 removes it [deprecated] (use Deployment of apps/v1)`}},
		"Introduced": {"v1.20.1+k3s1", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\n", []string{
			`app/a.yaml:1:13: error: CronJob a: Kubernetes 1.20 does not serve CronJob of batch/v1; 1.21 introduced it [api-version]`}},
		"NoSuchVersion": {"", "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n", []string{
			`app/a.yaml:1:13: error: HorizontalPodAutoscaler a: Kubernetes 1.36 does not serve HorizontalPodAutoscaler in version v2beta2 [api-version] (it is in autoscaling/v1, autoscaling/v2)`}},
		"Newer": {"v1.99.0", swap(deployment, "replicas: 2", "replica: 2", 1), []string{
			`app/a.yaml:7:3: warning: Deployment web: unknown field "spec.replica" [unknown-field] (this fleet knows Kubernetes up to v1.36.0)`}},
		"CustomField": {"", swap(mill, "grain: rye", "grainn: rye", 1), []string{
			`app/a.yaml:6:3: error: Mill old: unknown field "spec.grainn" [unknown-field] (did you mean "grain"?)`}},
		"CustomType": {"", swap(mill, "wings: 4", "wings: many", 1), []string{
			`app/a.yaml:5:10: error: Mill old: spec.wings must be a whole number, not a text [type]`}},
		"CustomEnum": {"", swap(mill, "grain: rye", "grain: oats", 1), []string{
			`app/a.yaml:6:10: error: Mill old: spec.grain must be one of "rye", "wheat" [value]`}},
		"CustomRequired": {"", swap(mill, "  wings: 4\n", "", 1), []string{
			`app/a.yaml:4:1: error: Mill old: spec.wings is required [value]`}},
		"CustomVersion": {"", swap(mill, "/v1", "/v1alpha1", 1), []string{
			`app/a.yaml:1:13: error: Mill old: the CRD of Mill does not serve version "v1alpha1" [api-version] (it serves v1)`}},
		"Secret": {"", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  password: hunter2!\n", []string{
			`app/a.yaml:5:13: error: Secret a: data.password is not base64 [type] (a Secret takes plain text in stringData)`}},
		"Name": {"", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_b}\n", []string{
			`app/a.yaml:3:18: error: ConfigMap A_b: metadata.name is not possible: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character [value]`}},
		"Twice": {"", deployment + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n", []string{
			`app/a.yaml:27:3: warning: key "data.a" stands here again (first in line 26); the last one counts [duplicate-key]`}},
		"InList": {"", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  dat: {}\n", []string{
			`app/a.yaml:7:3: error: ConfigMap a: unknown field "dat" [unknown-field] (did you mean "data"?)`}},
		"NullsAreFine": {"", swap(deployment, "replicas: 2", "replicas:", 1), nil},
		"ClusterRole":  {"", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:a'}\nrules: []\n", nil},
		"APIService":   {"", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a.b}\nspec: {}\n", nil},
		"Miscased": {"", "apiversion: v1\nKind: ConfigMap\nmetadata: {name: a}\n", []string{
			`app/a.yaml:1:1: error: a: unknown field "apiversion" [unknown-field] (did you mean "apiVersion"?)`,
			`app/a.yaml:2:1: error: a: unknown field "Kind" [unknown-field] (did you mean "kind"?)`,
		}},
		"Allowed": {"", swap(swap(deployment, "image: nginx", "image: nginx\n        imagePullPolicy: always", 1), "containerPort: 80", "containerPort: 80\n          protocol: tcp", 1) +
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: Loadbalancer, ports: [{port: 80}]}\n", []string{
			`app/a.yaml:17:26: error: Deployment web: spec.template.spec.containers[0].imagePullPolicy must be Always, IfNotPresent or Never [value] (did you mean "Always"?)`,
			`app/a.yaml:20:21: error: Deployment web: spec.template.spec.containers[0].ports[0].protocol must be TCP, UDP or SCTP [value] (did you mean "TCP"?)`,
			`app/a.yaml:27:14: error: Service a: spec.type must be ClusterIP, NodePort, LoadBalancer or ExternalName [value] (did you mean "LoadBalancer"?)`}},
		"AllowedByANewerOne": {"v1.99.0", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: Tunnel}\n", []string{
			`app/a.yaml:4:14: warning: Service a: spec.type must be ClusterIP, NodePort, LoadBalancer or ExternalName [value] (this fleet knows Kubernetes up to v1.36.0)`}},
		"Required": {"", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec:\n  rules:\n  - http:\n      paths:\n      - path: /\n        backend: {service: {name: a}}\n" +
			"---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  jobTemplate: {spec: {template: {spec: {containers: []}}}}\n", []string{
			`app/a.yaml:8:9: error: Ingress a: spec.rules[0].http.paths[0].pathType is missing [value] (it is Prefix, Exact or ImplementationSpecific)`,
			`app/a.yaml:14:1: error: CronJob a: spec.schedule is missing [value] (such as "0 3 * * *")`,
			`app/a.yaml:15:35: error: CronJob a: spec.jobTemplate.spec.template.spec.restartPolicy is missing [value] (for pods of a Job it is OnFailure or Never)`}},
		"Misplaced": {"", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nreplicas: 2\nspec:\n  selector: {app: a}\n  template:\n    containers: []\n", []string{
			`app/a.yaml:4:1: error: Deployment a: unknown field "replicas" [unknown-field] (it belongs below spec: indent it one level deeper)`,
			`app/a.yaml:6:14: error: Deployment a: unknown field "spec.selector.app" [unknown-field] (labels belong below matchLabels)`,
			`app/a.yaml:8:5: error: Deployment a: unknown field "spec.template.containers" [unknown-field] (it belongs below spec: indent it one level deeper)`}},
		"TargetNamespace": {"", "apiVersion: fleet.cattle.io/v1alpha1\nkind: GitRepo\nmetadata: {name: a}\nspec: {repo: 'https://x', targetNamespace: Shop_1}\n", []string{
			`app/a.yaml:4:44: error: GitRepo a: spec.targetNamespace is not possible: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character [value]`}},
		"NamespaceOfABundle": {"", "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: a}\nspec: {defaultNamespace: a.b, namespace: shop}\n", []string{
			`app/a.yaml:4:26: error: Bundle a: spec.defaultNamespace is not possible: must not contain dots [value]`}},
		"GitRepo": {"", "apiVersion: fleet.cattle.io/v1alpha1\nkind: GitRepo\nmetadata: {name: a}\nspec: {repo: 'https://x', pollingInterval: 15s, correctDrift: {enabled: true}}\n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, found(t, c.kubernetes, c.text)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// With the CRD of a kind of Fleet nothing is lost of what is known without it; which
// fields there are is what the CRD says.
func TestOwnKindsWithCRD(t *testing.T) {
	const own = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gitrepos.fleet.cattle.io}
spec:
  group: fleet.cattle.io
  scope: Namespaced
  names: {kind: GitRepo, plural: gitrepos}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              repo: {type: string, enum: ['https://x']}
              pollingInterval: {type: string}
              caBundle: {type: string, format: byte}
              ofANewerFleet: {type: integer}
              targets:
                type: array
                items:
                  type: object
                  properties:
                    clusterSelector:
                      type: object
                      properties:
                        matchExpressions:
                          type: array
                          items:
                            type: object
                            properties: {key: {type: string}, operator: {type: string}, values: {type: array, items: {type: string}}}
`
	repo := func(spec string) string {
		return "apiVersion: fleet.cattle.io/v1alpha1\nkind: GitRepo\nmetadata: {name: a}\nspec:\n  " + spec + "\n"
	}
	cases := map[string]struct {
		spec string
		want []string
	}{
		"Good":     {"{repo: 'https://x', pollingInterval: 15s, ofANewerFleet: 1}", nil},
		"Duration": {"pollingInterval: 15", []string{`app/a.yaml:5:20: error: GitRepo a: spec.pollingInterval must be a duration such as 90s [type]`}},
		"Quoted":   {`pollingInterval: "15"`, []string{`app/a.yaml:5:20: error: GitRepo a: spec.pollingInterval must be a duration such as 90s [type]`}},
		"PEM":      {"caBundle: '-----BEGIN CERTIFICATE-----'", []string{`app/a.yaml:5:13: error: GitRepo a: spec.caBundle is PEM, and the base64 of it is wanted [type] (write what "base64 -w0 FILE" prints)`}},
		"Operator": {"targets: [{clusterSelector: {matchExpressions: [{key: env, operator: Within, values: [a]}]}}]", []string{
			`app/a.yaml:5:72: error: GitRepo a: spec.targets[0].clusterSelector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist [value]`}},
		"Enum":  {"repo: 'https://y'", []string{`app/a.yaml:5:9: error: GitRepo a: spec.repo must be one of "https://x" [value]`}},
		"Field": {"gibberish: [a]", []string{`app/a.yaml:5:3: error: GitRepo a: unknown field "spec.gibberish" [unknown-field]`}},
		"FieldOfTheCRD": {"ofNewerFleet: 1", []string{
			`app/a.yaml:5:3: error: GitRepo a: unknown field "spec.ofNewerFleet" [unknown-field] (did you mean "ofANewerFleet"?)`}},
		"FieldTooHigh": {"env: prod\n  targets: [{clusterSelector: {env: prod}}]", []string{
			`app/a.yaml:5:3: error: GitRepo a: unknown field "spec.env" [unknown-field]`,
			`app/a.yaml:6:32: error: GitRepo a: unknown field "spec.targets[0].clusterSelector.env" [unknown-field] (labels belong below matchLabels)`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, found(t, "", repo(c.spec), own)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What is rendered is found in the file that it comes from, as far as that has the
// object or the field.
func TestRendered(t *testing.T) {
	kinds, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(deployment, "replicas: 2", "replica: 2", 1)
	object := Objects([]byte(bad))[0]
	template := strings.Replace(strings.Replace(bad, "name: web\n", "name: {{ .Release.Name }}\n", 1), "replica: 2", "replica: {{ .Values.n }}", 1)
	cases := map[string]struct {
		files  map[string][]byte
		source string
		want   string
	}{
		"Template":      {map[string][]byte{"templates/d.yaml": []byte(template)}, "templates/d.yaml", "app/templates/d.yaml:7:3"},
		"PlainTemplate": {map[string][]byte{"templates/d.yaml": []byte("---\n" + bad)}, "templates/d.yaml", "app/templates/d.yaml:8:3"},
		"Included":      {map[string][]byte{"templates/d.yaml": []byte(`{{ include "all" . }}`)}, "templates/d.yaml", "app/templates/d.yaml:1:1"},
		"Base": {map[string][]byte{"kustomization.yaml": []byte("resources: [base]\n"), "base/d.yaml": []byte(bad)}, "kustomization.yaml",
			"app/base/d.yaml:7:3"},
		"Downloaded": {map[string][]byte{".chart/x/web/templates/d.yaml": []byte(bad)}, ".chart/x/web/templates/d.yaml",
			"app/fleet.yaml:2:10: error: web/templates/d.yaml of the chart"},
		"Packed": {map[string][]byte{"charts/x.tgz": nil}, "charts/x/templates/d.yaml", "app/fleet.yaml:2:10: error: charts/x/templates/d.yaml of the chart"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			list := kinds.Findings(Bundle{
				Dir: "app", Files: c.files, Rendered: []Rendered{{File: c.source, Object: object}},
				Chart: finding.Finding{Path: "app/fleet.yaml", Line: 2, Column: 10},
			})
			want := c.want + ": error: Deployment web: unknown field"
			if strings.Contains(c.want, " ") {
				want = c.want + ": Deployment web: unknown field"
			}
			if len(list) != 1 || !strings.HasPrefix(list[0].String(), want) {
				t.Errorf("want %s, got %v", want, list)
			}
		})
	}
}

// What charts and kustomizations render may lack an apiVersion, which Helm does not install.
// Of manifests reading says so.
func TestRenderedWithoutVersion(t *testing.T) {
	kinds, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	const text = "# a map\nkind: ConfigMap\nmetadata: {name: a}\n"
	cases := map[string]struct {
		text string
		want []string
	}{
		"None": {text, []string{"app/templates/a.yaml:2:7: error: ConfigMap a: the object has no apiVersion [manifest]"}},
		"Case": {"apiversion: v1\n" + text, []string{`app/templates/a.yaml:1:1: error: ConfigMap a: unknown field "apiversion" [unknown-field]`}},
		"One":  {"apiVersion: v1\n" + text, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range kinds.Findings(Bundle{
				Dir: "app", Files: map[string][]byte{"templates/a.yaml": []byte(c.text)},
				Rendered: []Rendered{{File: "templates/a.yaml", Object: Objects([]byte(c.text))[0]}},
			}) {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Every field of every kind of Kubernetes is known: its own fixtures set them all.
func TestEveryField(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata/HEAD/*.yaml"))
	if err != nil || len(fixtures) < 100 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	kinds, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fixtures {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range Objects(data) {
			for _, f := range kinds.Check(o) {
				if f.Rule == finding.RuleUnknownField || f.Rule == finding.RuleType {
					t.Errorf("%s: %s", filepath.Base(name), f.Message)
				}
			}
		}
	}
}

// A bundle with a thousand mistakes says that there are more.
func TestMany(t *testing.T) {
	got := found(t, "", strings.Repeat("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndat: {}\n---\n", 1000))
	if want := "app:1:1: warning: there are more findings about the objects here, which are left out [too-large]"; len(got) != maxFindings+1 || got[maxFindings] != want {
		t.Errorf("%d findings, the last is %s", len(got), got[len(got)-1])
	}
}

// The version that is assumed is that of the module that is linked.
func TestLinked(t *testing.T) {
	module, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := strings.Split(Linked, ".")[1]
	if !strings.Contains(string(module), "\tk8s.io/api v0."+minor+".") {
		t.Errorf("go.mod has k8s.io/api in another version than %s", Linked)
	}
	if _, err := New("latest"); err == nil {
		t.Error("want an error for what is no version")
	}
}
