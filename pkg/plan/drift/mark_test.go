package drift

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// For most changes the metadata prove that no field that counts can differ.
func TestConcerns(t *testing.T) {
	const data, status, note = `{"f:data":{"f:k":{}}}`, `{"f:status":{"f:phase":{}}}`, `{"f:metadata":{"f:annotations":{"f:seen":{}}}}`
	wanted := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: x}, annotations: {mine: x}}, data: {k: v}}`)
	look := func() *unstructured.Unstructured {
		o := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: "5", generation: 2, labels: {l: x}, annotations: {mine: x}}}`)
		managed(t, o, "fleetagent", "10", data, "controller", "12", status)
		return o
	}
	set := func(entries ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { managed(t, o, entries...) }
	}
	cases := map[string]struct {
		why    string
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"Annotation": {
			why: "another field manager writes an annotation of its own, again and again", want: false,
			change: set("fleetagent", "10", data, "controller", "12", status, "ticker", "20", note),
		},
		"Data": {
			why: "another field manager owns data now", want: true,
			change: set("fleetagent", "10", data, "controller", "12", status, "kubectl", "20", data),
		},
		"SameSecond": {
			why: "the same writer wrote again in the second in which it was looked at", want: true,
			change: func(*unstructured.Unstructured) {},
		},
		"AnnotationInTheSameSecond": {
			why: "another field manager wrote in that second, and nothing but an annotation", want: false,
			change: set("fleetagent", "10", data, "controller", "12", status, "ticker", "12", note),
		},
		"Status": {
			why: "health is in the status", want: true,
			change: set("fleetagent", "10", data, "controller", "13", status),
		},
		"Removed": {
			why: "another client removed a field, and owns none", want: true,
			change: set("fleetagent", "10", `{"f:data":{}}`, "controller", "12", status),
		},
		"OwnerGone": {
			why: "all that one owned is gone", want: true,
			change: set("fleetagent", "10", data, "ticker", "20", note),
		},
		"Generation": {
			why: "the API server counts changes of the specification", want: true,
			change: func(o *unstructured.Unstructured) { o.SetGeneration(3) },
		},
		"WantedAnnotation": {
			why: "an annotation of the manifest", want: true,
			change: func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"mine": "y"}) },
		},
		"WantedLabel": {
			why: "a label of the manifest", want: true,
			change: func(o *unstructured.Unstructured) { o.SetLabels(nil) },
		},
		"Deleting": {
			why: "it is on its way out", want: true,
			change: func(o *unstructured.Unstructured) { now := metav1.Now(); o.SetDeletionTimestamp(&now) },
		},
		"NothingKnown": {
			why: "another client removed the managed fields", want: true,
			change: func(o *unstructured.Unstructured) { o.SetManagedFields(nil) },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys := KeysOf(wanted)
			was := MarkOf(look(), keys)
			changed := look()
			annotations := map[string]string{"mine": "x", "seen": strings.Repeat("long ", 100)}
			changed.SetAnnotations(annotations)
			c.change(changed)
			changed.SetResourceVersion("6")
			if got := was.MayDiffer(MarkOf(changed, keys)); got != c.want {
				t.Errorf("%s: want %v, got %v", c.why, c.want, got)
			}
			Stripped(changed)
			if got := was.MayDiffer(MarkOf(changed, keys)); got != c.want {
				t.Errorf("%s: made slim: want %v, got %v", c.why, c.want, got)
			}
			Stripped(changed)
			if got := was.MayDiffer(MarkOf(changed, keys)); got != c.want {
				t.Errorf("%s: made slim twice: want %v, got %v", c.why, c.want, got)
			}
		})
	}
	same := look()
	Stripped(same)
	same.SetManagedFields(append(same.GetManagedFields()[:0:0], same.GetManagedFields()...))
	if was := MarkOf(look(), KeysOf(wanted)); was.Version != 5 {
		t.Errorf("version %d", was.Version)
	}
}
