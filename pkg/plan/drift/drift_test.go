package drift

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod, labels: {app: web}, creationTimestamp: null}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: false
      nodeSelector: {}
      containers:
      - name: main
        image: web:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]
        resources: {limits: {cpu: 0.5, memory: 1024Mi}}
        command: [run, "-v"]
`

const liveDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  {name: web, namespace: prod, uid: u, resourceVersion: "7", generation: 2, labels: {app: web, more: x},
   annotations: {deployment.kubernetes.io/revision: "1"}}
spec:
  replicas: 3
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      restartPolicy: Always
      containers:
      - name: sidecar
        image: mesh:9
      - name: main
        image: web:1
        imagePullPolicy: IfNotPresent
        env: [{name: B, value: "2"}, {name: A, value: "1"}, {name: INJECTED, value: z}]
        ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]
        resources: {limits: {cpu: 500m, memory: 1Gi}}
        command: [run, "-v"]
status: {replicas: 3}
`

func TestDifference(t *testing.T) {
	// change is applied to the text of the live object.
	type edit struct{ from, to string }
	cases := map[string]struct {
		why    string
		wanted string
		live   string
		change edit
		want   string // the patch as JSON; empty if nothing differs
	}{
		"AsDeployed": {
			why:    "defaults, quantities, order of keyed lists and what others added are no drift",
			wanted: deployment, live: liveDeployment,
		},
		"Replicas": {
			why: "a field that was set has another value", wanted: deployment, live: liveDeployment,
			change: edit{"replicas: 3\n  progress", "replicas: 1\n  progress"},
			want:   `{"spec":{"replicas":1}}`,
		},
		"Image": {
			why: "an entry of a keyed list is named by its key", wanted: deployment, live: liveDeployment,
			change: edit{"image: web:1", "image: web:2"},
			want:   `{"spec":{"template":{"spec":{"containers":[{"image":"web:2","name":"main"}]}}}}`,
		},
		"EntryMissing": {
			why: "an entry of a keyed list was removed", wanted: deployment, live: liveDeployment,
			change: edit{`{name: B, value: "2"}, `, ""},
			want:   `{"spec":{"template":{"spec":{"containers":[{"env":[{"$patch":"delete","name":"B"}],"name":"main"}]}}}}`,
		},
		"Quantity": {
			why: "another amount is drift", wanted: deployment, live: liveDeployment,
			change: edit{"cpu: 500m", "cpu: 600m"},
			want:   `{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"600m"}}}]}}}}`,
		},
		"AtomicList": {
			why: "a command is one value: its order counts", wanted: deployment, live: liveDeployment,
			change: edit{`command: [run, "-v"]`, `command: ["-v", run]`},
			want:   `{"spec":{"template":{"spec":{"containers":[{"command":["-v","run"],"name":"main"}]}}}}`,
		},
		"FalseThatIsDefault": {
			why: "false is the same as nothing, but not as true", wanted: deployment, live: liveDeployment,
			change: edit{"restartPolicy: Always", "hostNetwork: true"},
			want:   `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`,
		},
		"LabelRemoved": {
			why: "null stands for what is missing", wanted: deployment, live: liveDeployment,
			change: edit{"labels: {app: web, more: x}", "labels: {more: x}"},
			want:   `{"metadata":{"labels":{"app":null}}}`,
		},
		"FalseThatIsNoDefault": {
			why:    "a pointer that was set to false means something else than none",
			wanted: "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, automountServiceAccountToken: false}",
			live:   "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}",
			want:   `{"automountServiceAccountToken":null}`,
		},
		"NullNeverCounts": {
			why:    "null asks for nothing",
			wanted: "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: null}}",
			live:   "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1}}",
		},
		"Port": {
			why:    "a port by number; the node port was given by the cluster",
			wanted: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, targetPort: 8080}]}}`,
			live: `{apiVersion: v1, kind: Service, metadata: {name: a},
			  spec: {ports: [{port: 80, targetPort: 8080, protocol: TCP, nodePort: 31000}]}}`,
		},
		"PortAsText": {
			why:    "8080 and \"8080\" are different ports to Kubernetes: the second is a name",
			wanted: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, targetPort: 8080}]}}`,
			live:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, targetPort: "8080"}]}}`,
			want:   `{"spec":{"ports":[{"port":80,"targetPort":"8080"}]}}`,
		},
		"Subjects": {
			why: "who was added to a binding is drift: that list is no keyed one",
			wanted: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
			  subjects: [{kind: User, name: ann}]}`,
			live: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
			  subjects: [{kind: User, name: ann}, {kind: User, name: eve}]}`,
			want: `{"subjects":[{"kind":"User","name":"ann"},{"kind":"User","name":"eve"}]}`,
		},
		"AggregatedClusterRole": {
			why: "its rules are written by a controller",
			wanted: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [],
			  aggregationRule: {clusterRoleSelectors: [{matchLabels: {x: y}}]}}`,
			live: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a},
			  rules: [{verbs: [get], apiGroups: [""], resources: [pods]}],
			  aggregationRule: {clusterRoleSelectors: [{matchLabels: {x: y}}]}}`,
		},
		"CABundle": {
			why: "certificate authorities are injected",
			wanted: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
			  webhooks: [{name: w.x.y, clientConfig: {caBundle: QQ==, url: "https://a"}}]}`,
			live: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
			  webhooks: [{name: w.x.y, clientConfig: {caBundle: Qg==, url: "https://a"}}]}`,
		},
		"CABundleOfOthers": {
			why:    "a field of the same name in a custom resource is the user's",
			wanted: `{apiVersion: example.com/v1, kind: Remote, metadata: {name: a}, spec: {caBundle: QQ==}}`,
			live:   `{apiVersion: example.com/v1, kind: Remote, metadata: {name: a}, spec: {caBundle: Qg==}}`,
			want:   `{"spec":{"caBundle":"Qg=="}}`,
		},
		"Finalizer": {
			why:    "finalizers come and go",
			wanted: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, finalizers: [x/y]}}`,
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		},
		"TokenList": {
			why:    "a controller adds tokens to an account",
			wanted: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: x}]}`,
			live:   `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: y}]}`,
		},
		"StringData": {
			why:    "stringData is kept as data",
			wanted: `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: v}}`,
			live:   `{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, data: {k: dg==}}`,
		},
		"SecretIsHidden": {
			why:    "the values of a Secret are in no patch",
			wanted: `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: v, gone: x}}`,
			live:   `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {k: Y2FuYXJ5}}`,
			want:   `{"data":{"gone":null,"k":"(hidden)"}}`,
		},
		"ConfigMapIsLiteral": {
			why:    "what looks like a quantity in a ConfigMap is text",
			wanted: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {cpu: "0.5"}}`,
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {cpu: 500m}}`,
			want:   `{"data":{"cpu":"500m"}}`,
		},
		"CustomResource": {
			why:    "fields that a controller defaulted do not count, zeros it dropped neither",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {size: 1, on: false, list: [{a: 1}]}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {size: 1.0, mode: x, list: [{a: 1, b: 2}]}}`,
		},
		"CustomResourceList": {
			why:    "lists of unknown kinds are one value",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{name: a}]}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{name: a}, {name: b}]}}`,
			want:   `{"spec":{"list":[{"name":"a"},{"name":"b"}]}}`,
		},
		"OtherShape": {
			why:    "a map became a list",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {x: {z: 1}}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {x: [1]}}`,
			want:   `{"spec":{"x":[1]}}`,
		},
		"Status": {
			why:    "a status in a manifest is never applied",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, status: {x: 1}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, status: {x: 2}}`,
		},
		"DoesNotFitItsType": {
			why:    "a number where text belongs is compared as it is",
			wanted: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {num: 5}}`,
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {num: "5"}}`,
			want:   `{"data":{"num":"5"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(c.live, c.change.from) {
				t.Fatalf("%q is not in the live object", c.change.from)
			}
			live := c.live
			if c.change.from != "" {
				live = strings.Replace(live, c.change.from, c.change.to, 1)
			}
			check(t, c.why, Difference(object(t, c.wanted), object(t, live), nil), c.want)
		})
	}
}

func check(t *testing.T, why string, diff map[string]any, want string) {
	t.Helper()
	got := ""
	if diff != nil {
		data, err := json.Marshal(diff)
		if err != nil {
			t.Fatal(err)
		}
		got = string(data)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n-want +got\n%s", why, d)
	}
}

// A replica count that an autoscaler set through the scale subresource is its.
func TestScaleSubresource(t *testing.T) {
	live := object(t, strings.Replace(liveDeployment, "replicas: 3\n  progress", "replicas: 9\n  progress", 1))
	owner := func(subresource string) {
		set := `[{"manager":"x","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"` + subresource + `"}]`
		var fields []any
		if err := json.Unmarshal([]byte(set), &fields); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(live.Object, fields, "metadata", "managedFields"); err != nil {
			t.Fatal(err)
		}
	}
	owner("scale")
	check(t, "the autoscaler owns it", Difference(object(t, deployment), live, nil), "")
	owner("")
	check(t, "a person owns it", Difference(object(t, deployment), live, nil), `{"spec":{"replicas":9}}`)
}

func TestComparePatches(t *testing.T) {
	live := strings.Replace(liveDeployment, "replicas: 3\n  progress", "replicas: 1\n  progress", 1)
	cases := map[string]struct {
		why   string
		patch fleet.ComparePatch
		hides bool
	}{
		"Pointer": {
			why:   "the field is named",
			patch: fleet.ComparePatch{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web", JsonPointers: []string{"/spec/replicas"}},
			hides: true,
		},
		"Pattern": {
			why:   "names may be patterns",
			patch: fleet.ComparePatch{APIVersion: "apps/v1", Kind: "*", Name: "w?b", JsonPointers: []string{"/spec/replicas"}},
			hides: true,
		},
		"OtherName": {
			why:   "another object",
			patch: fleet.ComparePatch{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", JsonPointers: []string{"/spec/replicas"}},
		},
		"CoreIsNotAll": {
			why:   "v1 is the core group, not every group",
			patch: fleet.ComparePatch{APIVersion: "v1", Kind: "Deployment", JsonPointers: []string{"/spec/replicas"}},
		},
		"Operation": {
			why: "a JSON patch on both sides",
			patch: fleet.ComparePatch{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web",
				Operations: []fleet.Operation{{Op: "remove", Path: "/spec/replicas"}},
			},
			hides: true,
		},
		"OperationIsExact": {
			why: "operations know no patterns",
			patch: fleet.ComparePatch{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "web",
				Operations: []fleet.Operation{{Op: "remove", Path: "/spec/replicas"}},
			},
		},
		"InAList": {
			why: "a path may lead through lists, also where it ends nowhere",
			patch: fleet.ComparePatch{
				APIVersion: "apps/v1", Kind: "Deployment",
				JsonPointers: []string{"/spec/template/spec/containers/7/image", "/spec/replicas"},
			},
			hides: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := `{"spec":{"replicas":1}}`
			if c.hides {
				want = ""
			}
			wanted, l := object(t, deployment), object(t, live)
			before := l.DeepCopy()
			check(t, c.why, Difference(wanted, l, []fleet.ComparePatch{c.patch}), want)
			if diff := cmp.Diff(before, l); diff != "" {
				t.Errorf("the live object was changed:\n%s", diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	wanted := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: v}}`)
	mine := func(text string) *unstructured.Unstructured {
		o := object(t, text)
		o.SetLabels(map[string]string{fleet.LabelObjectSetHash: "h"})
		return o
	}
	ignore := []fleet.Operation{{Op: "ignore"}}
	cases := map[string]struct {
		why     string
		live    *unstructured.Unstructured
		patches []fleet.ComparePatch
		want    string // text of the status
	}{
		"Same":     {why: "nothing differs", live: mine(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: v}}`)},
		"Missing":  {why: "it is not there", want: "configmap.v1 ns/a missing"},
		"NotOurs":  {why: "the label is gone", live: wanted, want: "configmap.v1 ns/a is not owned by us"},
		"Modified": {why: "it differs", live: mine(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: x}}`), want: `configmap.v1 ns/a modified {"data":{"k":"x"}}`},
		"Long": {
			why:  "a status is no place for whole files",
			live: mine(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: ` + strings.Repeat("x", 500) + `}}`),
			want: `configmap.v1 ns/a modified {"data":{"k":"` + strings.Repeat("x", 100) + `…"}}`,
		},
		"LongWords": {
			why:  "a longer value ends at a word",
			live: mine(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: ` + strings.Repeat("sixchr ", 50) + `}}`),
			want: `configmap.v1 ns/a modified {"data":{"k":"` + strings.TrimSpace(strings.Repeat("sixchr ", 14)) + `…"}}`,
		},
		"MissingIgnored": {
			why: "by a pattern of names", patches: []fleet.ComparePatch{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "[ab]", Operations: ignore}},
		},
		"MissingInOtherNamespace": {
			why: "the namespace must be equal", want: "configmap.v1 ns/a missing",
			patches: []fleet.ComparePatch{{APIVersion: "v1", Kind: "ConfigMap", Operations: ignore}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, modified := Expected{SetHash: "h", Patches: c.patches}.Compare(wanted, c.live)
			text := ""
			if modified {
				text = got.String()
			}
			if diff := cmp.Diff(c.want, text); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// FuzzCompare compares foreign objects: whatever they hold, nothing is changed,
// an object equals itself, and no value of a Secret is shown.
func FuzzCompare(f *testing.F) {
	f.Add(`{"apiVersion":"v1","kind":"Secret","data":{"k":"canary"}}`, `{"data":{"k":["canary"]}}`)
	f.Add(`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":1}]}}}}`, `{"spec":{"template":7}}`)
	f.Add(`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1},{"port":1}]}}`, `{"spec":{"ports":[{"port":"1"}]}}`)
	f.Fuzz(func(t *testing.T, wantedText, liveText string) {
		w, l := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if json.Unmarshal([]byte(wantedText), &w.Object) != nil || json.Unmarshal([]byte(liveText), &l.Object) != nil {
			return
		}
		if w.Object == nil || l.Object == nil {
			return
		}
		before := w.DeepCopy()
		e := Expected{Patches: []fleet.ComparePatch{{JsonPointers: []string{"/spec/a~1b/0", "/data"}}}}
		_, _ = e.Compare(w, l)
		if diff := cmp.Diff(before, w); diff != "" {
			t.Fatalf("the wanted object was changed:\n%s", diff)
		}
		if d := Difference(w, w, nil); d != nil {
			t.Fatalf("an object differs from itself: %v", d)
		}
	})
}

func TestObjects(t *testing.T) {
	got, err := Objects("---\n# Source: x\na: b\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\n\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: two}\n")
	if err != nil || len(got) != 2 || got[0].GetName() != "one" || got[1].GetKind() != "Secret" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Objects("kind: [\n"); err == nil {
		t.Error("want an error for what is no YAML")
	}
}
