package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestClassify(t *testing.T) {
	gr := schema.GroupResource{Group: "apps", Resource: "deployments"}
	cases := map[string]struct {
		err    error
		reason string
		kind   string // permanent, wait or empty
		text   string
	}{
		"Timeout":  {errors.New("timed out waiting for the condition"), release.ReasonTimeout, "permanent", "timed out waiting for the condition"},
		"Validate": {errors.New("error validating \"\": error validating data: unknown"), release.ReasonInvalidObject, "permanent", ""},
		"KubeVersion": {
			errors.New("chart requires kubeVersion: >=1.99 which is incompatible with Kubernetes v1.36.3"),
			release.ReasonIncompatible, "permanent", "",
		},
		"Ownership": {
			errors.New(`Unable to continue with install: Service "a" in namespace "b" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: missing key`),
			release.ReasonNotOwned, "permanent", "",
		},
		"Atomic":            {errors.New("release web failed, and has been rolled back due to atomic being set: x"), release.ReasonRolledBack, "permanent", ""},
		"YAML":              {errors.New("YAML parse error on web/templates/a.yaml: error converting YAML to JSON: yaml: line 2: bad"), release.ReasonBadYAML, "permanent", "templates/a.yaml: line 2 of what it renders to: bad"},
		"Immutable":         {errors.New(`cannot patch "x" with kind StatefulSet: StatefulSet.apps "x" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`), release.ReasonImmutable, "permanent", "StatefulSet x: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden; delete the object or give it another name"},
		"ImmutableAddress":  {errors.New(`cannot patch "x" with kind Service: Service "x" is invalid: spec.clusterIPs[0]: Invalid value: ["10.0.0.7"]: may not change once set`), release.ReasonImmutable, "permanent", `Service x: spec.clusterIPs[0]: Invalid value: ["10.0.0.7"]: may not change once set; delete the object or give it another name`},
		"ImmutableReplaced": {errors.New(`failed to replace object: Job.batch "x" is invalid: spec.template: Invalid value: {"` + strings.Repeat("x", 300) + `"}: field is immutable`), release.ReasonImmutable, "permanent", "Job x: spec.template: field is immutable; delete the object or give it another name"},
		"Template":          {errors.New("execution error at (web/templates/a.yaml:3:4): set it"), release.ReasonBadTemplate, "permanent", "templates/a.yaml:3:4: set it"},
		"Forbidden":         {apierrors.NewForbidden(gr, "web", errors.New("no")), release.ReasonForbidden, "wait", ""},
		"Terminating": {
			&apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonForbidden, Code: 403, Message: "namespace is being terminated",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
			}}, release.ReasonTerminating, "wait", "",
		},
		"UnknownKind": {
			fmt.Errorf("resource mapping not found: %w\nensure CRDs are installed first", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}),
			release.ReasonUnknownKind, "wait", `resource mapping not found: no matches for kind "X" in group ""`,
		},
		"Invalid": {
			apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil), release.ReasonInvalidObject, "permanent", "",
		},
		"InvalidUpgrade": {
			errors.New(`cannot patch "web" with kind Service: Service "web" is invalid: spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive`),
			release.ReasonInvalidObject, "permanent", "Service web: spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
		},
		"NoNamespace": {
			&refusal{"ConfigMap elsewhere/a in a.yaml", fmt.Errorf("1 error occurred:\n\t* %w\n\n", apierrors.NewNotFound(corev1.Resource("namespaces"), "elsewhere"))},
			release.ReasonNoNamespace, "wait", `ConfigMap elsewhere/a in a.yaml: namespace "elsewhere" does not exist; create it, or add it to the bundle`,
		},
		"ImpossibleNamespace": {
			&refusal{"ConfigMap Not_Valid/a in a.yaml", fmt.Errorf("1 error occurred:\n\t* %w\n\n", apierrors.NewNotFound(corev1.Resource("namespaces"), "Not_Valid"))},
			release.ReasonInvalidObject, "permanent", `ConfigMap Not_Valid/a in a.yaml: no namespace can have the name "Not_Valid"; correct metadata.namespace`,
		},
		"AtomicNoNamespace": {
			errors.New(`release web failed, and has been uninstalled due to atomic being set: 1 error occurred: * namespaces "elsewhere" not found`),
			release.ReasonRolledBack, "permanent", "",
		},
		"Network":  {errors.New("dial tcp: connection refused"), "Error", "", ""},
		"Kept":     {reconcile.RequeueError("Mine", 0, errors.New("x")), "Mine", "wait", "x"},
		"Multiple": {errors.New("2 errors occurred:\n\t* one\n\t* two\n\n"), "Error", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := classify(c.err)
			kind := ""
			switch {
			case reconcile.IsTerminal(got):
				kind = "permanent"
			case reconcile.IsRequeue(got):
				kind = "wait"
			}
			if reconcile.ReasonOf(got) != c.reason || kind != c.kind {
				t.Errorf("want %s %q, got %s %q", c.reason, c.kind, reconcile.ReasonOf(got), kind)
			}
			if c.text != "" && got.Error() != c.text {
				t.Errorf("text: want %q, got %q", c.text, got)
			}
		})
	}
	if classify(nil) != nil {
		t.Error("no error is no error")
	}
}

func TestParse(t *testing.T) {
	text := `# only a comment
---
# Source: web/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
no: kind
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service, metadata: {name: c, namespace: ns}}]}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"n": "1"}}
`
	objs, err := parseObjects([]byte(text), "file.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objs {
		got = append(got, objectInFile(o.source, o.Unstructured))
	}
	want := []string{"templates/a.yaml: ConfigMap a", "file.yaml: Secret b", "file.yaml: Service ns/c", "file.yaml: ConfigMap d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	data, err := render(objs)
	if err != nil {
		t.Fatal(err)
	}
	order := []string{}
	for _, line := range strings.Split(string(data), "\n") {
		if kind, ok := strings.CutPrefix(line, "kind: "); ok {
			order = append(order, kind)
		}
	}
	if diff := cmp.Diff([]string{"Secret", "ConfigMap", "ConfigMap", "Service"}, order); diff != "" {
		t.Errorf("order of kinds: -want +got\n%s", diff)
	}
}

// A document that is read once gives what the reading of unusual documents gives.
func TestParseDocument(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {n: 1.0, big: 12345678901234567890, no: yes}\n",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: b}}]\n",
		"apiVersion: v1\nkind: ConfigMapList\nitems: null\nmetadata: {name: c}\n",
		"apiVersion: v1\nKind: ConfigMap\nmetadata: {name: d}\n",
		"kind: 5\nmetadata: {name: e}\n",
		"kind: {}\nmetadata: {name: f}\n",
		"kind: ''\nmetadata: {name: g}\n",
		"no: kind\n",
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := parseUnusual(data)
		got, gotErr := parseDocument([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s\nwant %v, got %v\n-want +got\n%s", text, wantErr, gotErr, diff)
		}
	}
}

// BenchmarkParse reads a manifest with 8 MiB of data.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range 16 {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\ndata: {k: %q}\n", i, strings.Repeat("text", 128<<10))
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := parseObjects([]byte(text.String()), "f.yaml"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Line":     {"a: b\n---\nx: 1\ny: [\n", "f.yaml:4: did not find expected node content"},
		"Scalar":   {"just text", "f.yaml: a manifest must be a map, with apiVersion and kind"},
		"NoName":   {"apiVersion: v1\nkind: ConfigMap\n", "f.yaml: ConfigMap without metadata.name"},
		"Label":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {on: true}}\n", `f.yaml: ConfigMap a: labels: the value of "true" is no text; put it in quotes`},
		"Boolean":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: no}\n", "f.yaml: ConfigMap a: metadata.namespace is no text; put it in quotes"},
		"LabelMap": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: [x]}\n", "f.yaml: ConfigMap a: metadata.annotations must be a map"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parseObjects([]byte(c.text), "f.yaml")
			if err == nil || reconcile.ReasonOf(err) != release.ReasonBadYAML || err.Error() != c.want {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

// FuzzParse reads foreign manifests: it may refuse them, and what it takes can
// be written and read again.
func FuzzParse(f *testing.F) {
	f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n- x\n")
	f.Add("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[null]}")
	f.Add("kind: ConfigMap\nmetadata:\n  labels: {a: 1}\n  name: &x y\n")
	f.Fuzz(func(t *testing.T, text string) {
		objs, err := parseObjects([]byte(text), "f")
		if err != nil {
			return
		}
		data, err := render(objs)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := parseObjects(data, "f")
		if err != nil || len(again) != len(objs) {
			t.Fatalf("what was written cannot be read: %d objects, then %d: %v", len(objs), len(again), err)
		}
	})
}

func TestMarkNamespace(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{
			"kubernetes.io/metadata.name": "a", "pod-security.kubernetes.io/enforce": "restricted", "other": "x",
		},
		Annotations: map[string]string{"keep": "me"},
	}}
	if !setMetadata(ns, map[string]string{"team": "b", "pod-security.kubernetes.io/enforce": "privileged"}, nil) {
		t.Error("want a change")
	}
	want := map[string]string{"kubernetes.io/metadata.name": "a", "pod-security.kubernetes.io/enforce": "restricted", "team": "b"}
	if diff := cmp.Diff(want, ns.Labels); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if ns.Annotations["keep"] != "me" {
		t.Error("annotations were touched without any given")
	}
	if setMetadata(ns, map[string]string{"team": "b"}, nil) {
		t.Error("the same again is no change")
	}
}

func TestUnfinished(t *testing.T) {
	rec := func(status release.State, manifest string) record {
		r := record{Manifest: manifest, readable: true}
		r.Info.Status = status
		return r
	}
	list := []record{rec(release.Failed, "old"), rec(release.Deployed, "good"), rec(release.Failed, "one"), rec(release.PendingUpgrade, "two")}
	if got := unfinishedManifests(list); got != "\n---\none\n---\ntwo" {
		t.Errorf("got %q", got)
	}
}
