package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// value is the smallest valid value of a schema or, with all, one that sets
// every field to something else than its zero value.
func value(s *apiext.JSONSchemaProps, all bool) any {
	switch {
	case s.XIntOrString && s.Pattern != "":
		return "7" // a quantity, which is written as a string
	case s.XIntOrString:
		return float64(7)
	case len(s.Enum) > 0:
		return unmarshal(s.Enum[len(s.Enum)-1].Raw)
	}
	switch s.Type {
	case "object":
		out := map[string]any{}
		for k, p := range s.Properties {
			if all && k != "apiVersion" || slices.Contains(s.Required, k) {
				out[k] = value(&p, all)
			}
		}
		if all && s.AdditionalProperties != nil {
			out["key"] = value(s.AdditionalProperties.Schema, all)
		}
		if all && s.XPreserveUnknownFields != nil {
			out["free"] = map[string]any{"list": []any{"a", float64(1), true, nil}}
		}
		return out
	case "array":
		if !all {
			return []any{}
		}
		return []any{value(s.Items.Schema, all)}
	case "boolean":
		return true
	case "integer", "number":
		return float64(7)
	}
	return text(s)
}

func text(s *apiext.JSONSchemaProps) string {
	switch {
	case s.Format == "date-time":
		return "2020-02-02T02:02:02Z"
	case s.Format == "byte":
		return "eA=="
	case len(s.XValidations) > 0 || strings.Contains(s.Description, "how often"):
		return "1m30s"
	}
	return "word"
}

func unmarshal(raw []byte) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return v
}

// whole is an object of the kind with the given body.
func whole(kind string, body any) map[string]any {
	object := body.(map[string]any)
	object["apiVersion"], object["kind"] = fleet.GroupVersion.String(), kind
	object["metadata"] = map[string]any{"name": "x"}
	return object
}

// Every field of the definitions is a field of the Go types, under the same
// name and with the same type, and survives reading, copying and writing.
func TestRoundTrip(t *testing.T) {
	crds := loadCRDs(t)
	for _, k := range fleet.Kinds() {
		t.Run(k.Kind, func(t *testing.T) {
			want := whole(k.Kind, value(schemaOf(crds[k.Kind]), true))
			object := k.New()
			decode(t, want, object)
			clone := object.DeepCopyObject()
			if diff := cmp.Diff(object, clone); diff != "" {
				t.Errorf("the copy differs: %s", diff)
			}
			if shared := aliases(reflect.ValueOf(object), reflect.ValueOf(clone), k.Kind); len(shared) > 0 {
				t.Errorf("shared with the copy: %v", shared)
			}
			if diff := cmp.Diff(want, encode(t, clone)); diff != "" {
				t.Errorf("-want +got: %s", diff)
			}
			sample(t, k.Kind, want)
		})
	}
}

// Tools and people write null for "not set". Wherever a field is optional that
// is valid, and the Go types read it.
func TestNullMeansUnset(t *testing.T) {
	crds := loadCRDs(t)
	for _, k := range fleet.Kinds() {
		t.Run(k.Kind, func(t *testing.T) {
			s := schemaOf(crds[k.Kind])
			v := validator(t, s)
			n := 0
			for _, c := range nulls("", s) {
				n++
				object := whole(k.Kind, c.object)
				if r := v.Validate(object); !r.IsValid() {
					t.Errorf("%s: null: %v", c.path, r.AsError())
				}
				decode(t, object, k.New())
			}
			if n == 0 {
				t.Error("no optional field found")
			}
			all := whole(k.Kind, nullLeaves(schemaOf(crds[k.Kind])))
			if r := v.Validate(all); !r.IsValid() {
				t.Errorf("all at once: %v", r.AsError())
			}
			sample(t, k.Kind, all)
		})
	}
}

type nullCase struct {
	path   string
	object any // a valid value in which path is null
}

// nulls returns, for each optional field below s, a value of s in which that
// field is null and nothing else is set that need not be.
func nulls(path string, s *apiext.JSONSchemaProps) []nullCase {
	var out []nullCase
	for k, p := range s.Properties {
		name := path + "." + k
		if name == ".apiVersion" || name == ".kind" || name == ".metadata" {
			continue
		}
		put := func(v any) any {
			object := value(s, false).(map[string]any)
			object[k] = v
			return object
		}
		if !slices.Contains(s.Required, k) && p.Default == nil && len(p.Enum) == 0 {
			out = append(out, nullCase{name, put(nil)})
		}
		for _, below := range nulls(name, &p) {
			out = append(out, nullCase{below.path, put(below.object)})
		}
	}
	if s.Items != nil {
		for _, below := range nulls(path+"[]", s.Items.Schema) {
			out = append(out, nullCase{below.path, []any{below.object}})
		}
	}
	if s.AdditionalProperties != nil {
		for _, below := range nulls(path+"{}", s.AdditionalProperties.Schema) {
			out = append(out, nullCase{below.path, map[string]any{"key": below.object}})
		}
	}
	return out
}

// nullLeaves is a value of s in which every optional field is null that holds
// no others. An enumeration takes no null: it is left out.
func nullLeaves(s *apiext.JSONSchemaProps) any {
	switch {
	case len(s.Properties) > 0:
		out := map[string]any{}
		for k, p := range s.Properties {
			optional := !slices.Contains(s.Required, k)
			if optional && len(p.Enum) > 0 {
				continue
			}
			if optional && p.Default == nil && leaf(&p) {
				out[k] = nil
			} else if k != "apiVersion" && k != "kind" {
				out[k] = nullLeaves(&p)
			}
		}
		return out
	case s.Items != nil:
		return []any{nullLeaves(s.Items.Schema)}
	case s.AdditionalProperties != nil:
		return map[string]any{"key": nullLeaves(s.AdditionalProperties.Schema)}
	}
	return value(s, false)
}

func leaf(s *apiext.JSONSchemaProps) bool {
	switch {
	case len(s.Properties) > 0:
		return false
	case s.Items != nil:
		return leaf(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return leaf(s.AdditionalProperties.Schema)
	}
	return true
}

// sample keeps an object for the integration test, which gives it to a real
// API server.
func sample(t *testing.T, kind string, object any) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	file := filepath.Join("testdata", name, kind+".yaml")
	want, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not current, run with -update: %v", file, err)
	}
}

// Objects that must be refused by the definitions alone.
func TestRefused(t *testing.T) {
	tests := map[string]struct {
		kind, object, why string
	}{
		"GitRepoWithoutRepo":   {"GitRepo", `{"spec": {}}`, "nothing to read"},
		"GitRepoWithEmptyRepo": {"GitRepo", `{"spec": {"repo": ""}}`, "nothing to read"},
		"LongPollingInterval":  {"GitRepo", `{"spec": {"repo": "r", "pollingInterval": "1000000000000000000000000000000000000s"}}`, "at most 32 characters"},
		"EmptyTTL":             {"ClusterRegistrationToken", `{"spec": {"ttl": ""}}`, "no duration"},
		"ReleaseName":          {"Bundle", `{"spec": {"helm": {"releaseName": "Up_per"}}}`, "Helm would refuse it on every cluster"},
		"LongReleaseName":      {"Bundle", `{"spec": {"helm": {"releaseName": "` + strings.Repeat("a", 54) + `"}}}`, "Helm would refuse it on every cluster"},
		"CustomizationMode":    {"Bundle", `{"spec": {"targetCustomizationMode": "Some"}}`, "neither of the two modes"},
		"ScanWithoutInterval":  {"ImageScan", `{"spec": {"image": "i"}}`, "required by the API"},
		"ScanWithoutImage":     {"ImageScan", `{"spec": {"interval": "1m"}}`, "required by the API"},
		"ConditionWithoutType": {"Bundle", `{"status": {"conditions": [{"status": "True"}]}}`, "conditions are keyed by type"},
	}
	crds := loadCRDs(t)
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			object := whole(c.kind, unmarshal([]byte(c.object)))
			if validator(t, schemaOf(crds[c.kind])).Validate(object).IsValid() {
				t.Errorf("accepted: %s", c.why)
			}
		})
	}
}

// The API server takes only schemas of a certain shape.
func TestSchemasAreStructural(t *testing.T) {
	for kind, crd := range loadCRDs(t) {
		var in apiextensions.JSONSchemaProps
		if err := apiext.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schemaOf(crd), &in, nil); err != nil {
			t.Fatal(err)
		}
		s, err := structural.NewStructural(&in)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		for _, err := range structural.ValidateStructural(nil, s) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func validator(t *testing.T, s *apiext.JSONSchemaProps) *validate.SchemaValidator {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out spec.Schema
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return validate.NewSchemaValidator(&out, nil, "", strfmt.Default)
}

func decode(t *testing.T, from any, into runtime.Object) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("decode %s: %v", raw, err)
	}
}

func encode(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return unmarshal(raw).(map[string]any)
}

// aliases names the pointers, maps and slices that a and b have in common.
func aliases(a, b reflect.Value, path string) []string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() {
			return nil
		}
		if a.Kind() == reflect.Pointer && a.Pointer() == b.Pointer() && !strings.Contains(a.Type().String(), "time.") {
			return []string{path}
		}
		return aliases(a.Elem(), b.Elem(), path)
	case reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		var out []string
		for _, k := range a.MapKeys() {
			out = append(out, aliases(a.MapIndex(k), b.MapIndex(k), path+"."+k.String())...)
		}
		return out
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return []string{path}
		}
		var out []string
		for i := range a.Len() {
			out = append(out, aliases(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	case reflect.Struct:
		var out []string
		for i := range a.NumField() {
			out = append(out, aliases(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
		return out
	}
	return nil
}
