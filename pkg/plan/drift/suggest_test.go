package drift

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestFields(t *testing.T) {
	cases := map[string]struct {
		why   string
		patch string
		want  []Field
	}{
		"Nothing": {why: "an object that is missing has no patch"},
		"Sorted": {
			why:   "the same report gives the same fields",
			patch: `{"spec":{"replicas":1,"paused":true}}`,
			want:  []Field{{Pointer: "/spec/paused", Value: "true"}, {Pointer: "/spec/replicas", Value: "1"}},
		},
		"Escaped": {
			why:   "names of annotations have slashes, and may have tildes",
			patch: `{"metadata":{"annotations":{"a/b":"x","c~d":null}}}`,
			want:  []Field{{Pointer: "/metadata/annotations/a~1b", Value: `"x"`}, {Pointer: "/metadata/annotations/c~0d", Value: "null"}},
		},
		"List": {
			why:   "a list is one field",
			patch: `{"spec":{"containers":[{"name":"main","image":"web:2"}]}}`,
			want:  []Field{{Pointer: "/spec/containers", Value: `[{"image":"web:2","name":"main"}]`, List: true}},
		},
		"EmptyMap": {
			why:   "a map that is there instead of text is a value",
			patch: `{"spec":{"x":{}}}`,
			want:  []Field{{Pointer: "/spec/x", Value: "{}"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Fields(c.patch)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
	if _, err := Fields("[1]"); !errors.Is(err, ErrPatch) {
		t.Errorf("want %v, got %v", ErrPatch, err)
	}
}

func TestSuggest(t *testing.T) {
	web := fleet.ModifiedStatus{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web", Patch: `{"spec":{"replicas":1}}`}
	pointers := func(list ...string) fleet.ComparePatch {
		return fleet.ComparePatch{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web", JsonPointers: list}
	}
	// ignored are pointers and the operation that a patch of web adds beside them.
	ignored := func(list ...string) fleet.ComparePatch {
		p := pointers(list...)
		p.Operations = []fleet.Operation{{Op: "remove", Path: "/spec/replicas"}}
		return p
	}
	gone := fleet.ModifiedStatus{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "a", Create: true}
	foreign := gone
	foreign.Exist = true
	cases := map[string]struct {
		why      string
		modified []fleet.ModifiedStatus
		existing []fleet.ComparePatch
		options  SuggestOptions
		want     Suggestion
	}{
		"Nothing": {why: "nothing differs"},
		"New":     {why: "one patch for one object", modified: []fleet.ModifiedStatus{web}, want: Suggestion{Patches: []fleet.ComparePatch{ignored("/spec/replicas")}}},
		"Kept": {
			why:      "what is ignored already stays ignored, once",
			modified: []fleet.ModifiedStatus{web}, existing: []fleet.ComparePatch{{Kind: "Job"}, pointers("/spec/paused", "/spec/replicas")},
			want: Suggestion{Patches: []fleet.ComparePatch{{Kind: "Job"}, ignored("/spec/paused", "/spec/replicas")}},
		},
		"Merged": {
			why:      "a second field of an object joins the first",
			modified: []fleet.ModifiedStatus{web}, existing: []fleet.ComparePatch{pointers("/spec/paused")},
			want: Suggestion{Patches: []fleet.ComparePatch{ignored("/spec/paused", "/spec/replicas")}},
		},
		"Missing": {
			why:      "an object that is gone is not ignored unasked",
			modified: []fleet.ModifiedStatus{gone}, want: Suggestion{Left: []string{"configmap.v1 prod/a missing"}},
		},
		"MissingWanted": {
			why:      "but where it is asked for",
			modified: []fleet.ModifiedStatus{gone}, options: SuggestOptions{Missing: true},
			want: Suggestion{Patches: []fleet.ComparePatch{{
				APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "a", Operations: []fleet.Operation{{Op: "ignore"}},
			}}},
		},
		"Foreign": {
			why:      "no comparePatch changes whose an object is",
			modified: []fleet.ModifiedStatus{foreign}, options: SuggestOptions{Missing: true},
			want: Suggestion{Left: []string{"configmap.v1 prod/a is not owned by us; helm.takeOwnership takes it over"}},
		},
		"Broken": {
			why:      "a report that cannot be read stops no other",
			modified: []fleet.ModifiedStatus{{Kind: "Job", Name: "x", Patch: "no"}, web},
			want: Suggestion{
				Patches: []fleet.ComparePatch{ignored("/spec/replicas")},
				Left:    []string{"Job x: the reported difference is no JSON object: invalid character 'o' in literal null (expecting 'u')"},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := fleet.DiffOptions{ComparePatches: c.existing}
			kept := before.DeepCopy()
			if diff := cmp.Diff(c.want, Suggest(c.modified, c.existing, c.options)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(*kept, before); diff != "" {
				t.Errorf("what the bundle has was changed:\n%s", diff)
			}
		})
	}
}

// What is suggested for a difference makes the difference go: the agent's own
// comparison says so. A second difference is still found.
func TestIgnoredByTheAgent(t *testing.T) {
	cases := map[string]struct{ why, wanted, live, other string }{
		"Field": {
			why:    "a field with another value",
			wanted: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: n}, spec: {replicas: 3, paused: false}}",
			live:   "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: n}, spec: {replicas: 1}}",
			other:  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: n}, spec: {replicas: 1, paused: true}}",
		},
		"Removed": {
			why:    "a key that is gone, with a slash in its name",
			wanted: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n, annotations: {x/y~z: w}}, data: {k: v}}",
			live:   "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}, data: {k: v}}",
			other:  "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}}",
		},
		"List": {
			why:    "an entry of a list of containers, behind one that another client inserted",
			wanted: "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}, spec: {nodeName: x, containers: [{name: m, image: a:1}]}}",
			live:   "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}, spec: {nodeName: x, containers: [{name: s}, {name: m, image: a:2}]}}",
			other:  "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}, spec: {nodeName: y, containers: [{name: s}, {name: m, image: a:2}]}}",
		},
		"StringData": {
			why:    "a Secret whose manifest has text",
			wanted: "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: n}, stringData: {k/1: v, l: w}}",
			live:   "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: n}, data: {k/1: eA==, l: dw==}}",
			other:  "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: n}, data: {k/1: eA==}}",
		},
		"ClusterScoped": {
			why:    "an object without a namespace",
			wanted: "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {x: y, z: z}}}",
			live:   "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {z: z}}}",
			other:  "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, modified := Expected{}.Compare(object(t, c.wanted), object(t, c.live))
			if !modified {
				t.Fatal("nothing differs")
			}
			text, err := Suggest([]fleet.ModifiedStatus{m}, nil, SuggestOptions{}).YAML()
			if err != nil {
				t.Fatal(err)
			}
			var pasted struct{ Diff fleet.DiffOptions }
			if err := yaml.UnmarshalStrict([]byte(text), &pasted); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			e := Expected{Patches: pasted.Diff.ComparePatches}
			if m, modified := e.Compare(object(t, c.wanted), object(t, c.live)); modified {
				t.Errorf("%s: still %s with\n%s", c.why, m, text)
			}
			if _, modified := e.Compare(object(t, c.wanted), object(t, c.other)); !modified {
				t.Errorf("%s: what else differs is ignored, too, with\n%s", c.why, text)
			}
		})
	}
}
