package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type sample struct {
	head
	At      time.Time        `json:"at"`
	Changed metav1.Time      `json:"changed"`
	Seen    *metav1.Time     `json:"seen,omitempty"`
	Every   *metav1.Duration `json:"every,omitempty"`
	Count   int32            `json:"count"`
}

// The schema of a type with the times and numbers of the Kubernetes API is valid,
// and fits what the type is written as.
func TestDocument(t *testing.T) {
	text, err := Comments{}.Document(reflect.TypeFor[sample](), "v1")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("sample.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("sample.json")
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	data, err := json.Marshal(sample{
		head: head{APIVersion: "v1", Kind: "sample"}, At: now.Time, Changed: now, Seen: &now, Every: &metav1.Duration{Duration: time.Minute}, Count: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%s does not fit %s: %v", data, text, err)
	}
}
