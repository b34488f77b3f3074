package kube

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommon(t *testing.T) {
	for name, c := range map[string]struct{ why, want, have, out string }{
		"Same":    {"nothing is lost", `{"a":{"b":[1,{"c":2}]}}`, `{"a":{"b":[1,{"c":2}]}}`, `{"a":{"b":[1,{"c":2}]}}`},
		"Top":     {"a field is unknown", `{"a":1,"b":2}`, `{"a":1}`, `{"a":1}`},
		"Deep":    {"a field of a field is unknown", `{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, `{"a":{"c":2}}`},
		"InList":  {"a field of an element is unknown", `{"a":[{"b":1,"c":2},{"b":3}]}`, `{"a":[{"c":2},{}]}`, `{"a":[{"c":2},{}]}`},
		"Shorter": {"an element was dropped", `{"a":[1,2,3]}`, `{"a":[1,3]}`, `{"a":[1,3]}`},
		"Default": {"what the server adds is not ours", `{"a":1}`, `{"a":1,"b":2}`, `{"a":1}`},
		"Value":   {"what the server changes is as it was sent", `{"a":"1000m"}`, `{"a":"1"}`, `{"a":"1000m"}`},
		"Null":    {"what is null is left", `{"a":null}`, `{"a":null}`, `{"a":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			out := commonFields(parsed(t, c.want), parsed(t, c.have))
			if diff := cmp.Diff(parsed(t, c.out), out); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
