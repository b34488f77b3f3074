package options_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A deployment id that changes makes every cluster deploy everything again. The
// golden file has one line for each field of the options: the JSON that is
// digested when only that field is set, and the id. No line may ever change; a
// new field adds lines and must leave all others as they are.
func TestDeploymentIDs(t *testing.T) {
	var out bytes.Buffer
	line := func(name string, o opts) {
		id, err := options.DeploymentID("s-1", o)
		if err != nil {
			t.Fatal(err)
		}
		o.Diff, o.CorrectDrift = nil, nil
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n  %s\n  %s\n", name, raw, id)
	}
	line("none", opts{})
	all := opts{}
	for _, c := range matrix(reflect.TypeFor[opts](), "") {
		var o opts
		c.set(reflect.ValueOf(&o).Elem())
		c.set(reflect.ValueOf(&all).Elem())
		line(c.path, o)
	}
	line("all", all)
	line("escaped", opts{DefaultNamespace: "<&>\u2028ä"})
	line("nested values", helm(fleet.HelmOptions{Values: values("z", []any{1.0, "a", nil, true}, "a", object("n", 1e21, "m", 0.5))}))
	line("empty values", helm(fleet.HelmOptions{Values: values()}))
	line("empty helm", helm(fleet.HelmOptions{}))

	file := filepath.Join("testdata", "TestDeploymentIDs", "matrix.golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); d != "" {
		t.Errorf("-want +got: %s", d)
	}
}

// A field is one leaf of the options and how to set it.
type field struct {
	path string
	set  func(reflect.Value)
}

// matrix lists all leaves below a struct, in the order of its fields.
func matrix(t reflect.Type, path string) []field {
	switch {
	case t == reflect.TypeFor[fleet.GenericMap]():
		return []field{{path, func(v reflect.Value) { v.Set(reflect.ValueOf(*values("key", "value"))) }}}
	case t.Kind() == reflect.Pointer:
		return within(matrix(t.Elem(), path), func(v reflect.Value) reflect.Value {
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			return v.Elem()
		})
	case t.Kind() == reflect.Slice:
		return within(matrix(t.Elem(), path+"[]"), func(v reflect.Value) reflect.Value {
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(t, 1, 1))
			}
			return v.Index(0)
		})
	case t.Kind() == reflect.Map:
		return []field{{path, func(v reflect.Value) {
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
		}}}
	case t.Kind() == reflect.Struct:
		var out []field
		for i := range t.NumField() {
			out = append(out, within(matrix(t.Field(i).Type, path+"."+t.Field(i).Name),
				func(v reflect.Value) reflect.Value { return v.Field(i) })...)
		}
		return out
	}
	return []field{{path, setLeaf}}
}

// within makes setters of what is inside into setters of what is around it.
func within(inner []field, step func(reflect.Value) reflect.Value) []field {
	out := make([]field, len(inner))
	for i, f := range inner {
		out[i] = field{f.path, func(v reflect.Value) { f.set(step(v)) }}
	}
	return out
}

func setLeaf(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	default:
		panic("no value for " + v.Type().String())
	}
}

func TestDeploymentID(t *testing.T) {
	id := func(contentID string, o opts) string {
		got, err := options.DeploymentID(contentID, o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	none := id("s-1", opts{})
	quiet := id("s-1", opts{Diff: &fleet.DiffOptions{}, CorrectDrift: &fleet.CorrectDrift{Enabled: true}})
	if none != quiet {
		t.Error("diff and correctDrift change nothing in the cluster, so they must not redeploy")
	}
	if other := id("", opts{}); !strings.HasPrefix(other, ":") || other[1:] != strings.TrimPrefix(none, "s-1:") {
		t.Errorf("without content the id is %s", other)
	}
	if _, err := options.DeploymentID("s-1", helm(fleet.HelmOptions{Values: values("a", math.Inf(1))})); err == nil {
		t.Error("infinity has no JSON")
	}
}
