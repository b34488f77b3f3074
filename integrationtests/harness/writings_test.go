package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The body of a request decides which fields it is about.
func TestFieldsOf(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		r    Request
		want []string
	}{
		"merge patch": {
			why:  "what is removed is written too, and what only guards the write is not",
			r:    Request{Verb: "patch", Body: `{"metadata":{"resourceVersion":"7","labels":{"a.b/c":null,"d":"e"}},"spec":{"x":{"y":1}}}`},
			want: []string{"metadata.labels.d", "metadata.labels[a.b/c]", "spec.x.y"},
		},
		"list":       {why: "a list is one field", r: Request{Verb: "create", Body: `{"kind":"K","metadata":{"name":"n"},"spec":{"l":[{"a":1}]}}`}, want: []string{"spec.l"}},
		"empty":      {why: "an empty map is set as well", r: Request{Verb: "patch", Body: `{"spec":{"m":{}}}`}, want: []string{"spec.m"}},
		"update":     {why: "it may change anything", r: Request{Verb: "update", Body: `{"spec":{}}`}, want: []string{Whole}},
		"json patch": {why: "its paths are fields", r: Request{Verb: "patch", Body: `[{"op":"remove","path":"/metadata/finalizers"}]`}, want: []string{"metadata.finalizers"}},
		"deletion":   {why: "it is about no field", r: Request{Verb: "delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fieldsOf(c.r)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
}

func TestWhoWrote(t *testing.T) {
	list := []Writing{
		{Request: Request{User: "a", Group: "g", Resource: "r", Namespace: "ns", Name: "n"}, Fields: []string{"spec.x"}},
		{Request: Request{User: "b", Group: "g", Resource: "r", Namespace: "ns", Name: "n"}, Fields: []string{"spec.y"}},
		{Request: Request{User: "c", Group: "g", Resource: "r", Namespace: "ns", Name: "n"}, Fields: []string{Whole}},
		{Request: Request{User: "d", Group: "g", Resource: "r", Namespace: "ns", Name: "other"}, Fields: []string{"spec.x"}},
		{Request: Request{User: "a", Group: "g", Resource: "r", Namespace: "ns", Name: "n"}, Fields: []string{"spec.x", "spec.z"}},
	}
	if diff := cmp.Diff([]string{"a", "c"}, WhoWrote(list, "spec.x", "r.g", "ns", "n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !(Writing{Request: Request{Resource: "namespaces", Namespace: "a", Name: "a"}}).Is("namespaces.", "", "a") {
		t.Error("a Namespace has no namespace")
	}
	if diff := cmp.Diff([]string{"spec.x", "spec.z"}, FieldsBy(list, "a", "r.g", "ns", "n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
