package helm

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// full sets everything in a value, two of each in lists.
func full(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("a: b")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		full(v.Index(0))
		full(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		full(e)
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf("a"))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				full(v.Field(i))
			}
		}
	}
}

// The canonical form of a kustomization says all that the kustomization says.
func TestCanonicalKustomization(t *testing.T) {
	var k, again types.Kustomization
	full(reflect.ValueOf(&k).Elem())
	if err := again.Unmarshal([]byte(yamlOf(t, k))); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(k, again) {
		t.Errorf("want %+v\ngot %+v", k, again)
	}
}

// A kustomization that is written as kustomize's types are stays as it is; one
// whose keys are spelled otherwise, or with paths that look like addresses, is
// written in canonical form, and builds the same.
func TestKustomizationIsWrittenCanonically(t *testing.T) {
	other := strings.Replace(renderMap, "raw", "other", 1)
	cases := map[string]struct {
		files map[string]string
		text  string // of the kustomization that is built; empty: as it was
		names []string
	}{
		"Ordinary": {map[string]string{"kustomization.yaml": "# kept\nresources:  [ a.yaml ]\npatches: []\nnamePrefix: x-\n"}, "", []string{"x-raw"}},
		"Anchors":  {map[string]string{"kustomization.yaml": "namePrefix: &p x-\nnameSuffix: *p\nresources: [a.yaml]\n"}, "", []string{"x-rawx-"}},
		"Spelled":  {map[string]string{"kustomization.yaml": "Resources: [a.yaml]\nNAMEPREFIX: x-\n"}, "namePrefix: x-\nresources:\n- a.yaml\n", []string{"x-raw"}},
		"Twice":    {map[string]string{"kustomization.yaml": "RESOURCES: [b.yaml]\nresources: [a.yaml]\n"}, "resources:\n- a.yaml\n", []string{"raw"}},
		"Odd": {map[string]string{"kustomization.yaml": "resources: ['x:b.yaml', 'd/c:1.yaml']\nconfigMapGenerator: [{name: g, files: ['k=1:f']}]\ngeneratorOptions: {disableNameSuffixHash: true}\n", "x:b.yaml": other, "d/c:1.yaml": renderMap, "1:f": "text"},
			"configMapGenerator:\n- files:\n  - k=./1:f\n  name: g\ngeneratorOptions:\n  disableNameSuffixHash: true\nresources:\n- ./x:b.yaml\n- ./d/c:1.yaml\n", []string{"other", "raw", "g"}},
		"Chart": {map[string]string{"kustomization.yaml": "Resources: [a.yaml]\nnamePrefix: x-\n", "Chart.yaml": renderChart, "templates/t.yaml": other},
			"namePrefix: x-\nresources:\n- fleet-manifests.yaml\n- a.yaml\n", []string{"x-other", "x-raw"}},
		"Below": {map[string]string{"kustomization.yaml": "resources: [a.yaml, d/b.yaml]\n", "d/b.yaml": other}, "", []string{"raw", "other"}},
		"Plugins": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t]\n", "t/kustomization.yaml": "Resources: [t.yaml]\n",
			"t/t.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: p}\nprefix: x-\nfieldSpecs: [{path: metadata/name}]\n"}, "", []string{"x-raw"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.files["a.yaml"] = renderMap
			p, err := partsOf(rendered(fleet.BundleDeploymentOptions{}, c.files))
			if err != nil {
				t.Fatal(err)
			}
			fs := filesys.MakeFsInMemory()
			for _, f := range p.files {
				if err := fs.WriteFile("/"+f.name, f.data); err != nil {
					t.Fatal(err)
				}
			}
			if chart := c.files["templates/t.yaml"]; chart != "" {
				if err := addResource(fs, "/", []byte(chart)); err != nil {
					t.Fatal(err)
				}
			}
			result, err := build(fs, "/")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range result.Resources() {
				names = append(names, r.GetName())
			}
			if diff := cmp.Diff(c.names, names); diff != "" {
				t.Errorf("objects: -want +got\n%s", diff)
			}
			got, _ := fs.ReadFile("/kustomization.yaml")
			if diff := cmp.Diff(firstNonEmpty(c.text, c.files["kustomization.yaml"]), string(got)); diff != "" {
				t.Errorf("kustomization: -want +got\n%s", diff)
			}
		})
	}
}

// The schema that one bundle brings is not that of the next bundle.
func TestSchemaStaysInItsBundle(t *testing.T) {
	container := func(name string) string { return "{name: " + name + ", image: " + name + "}" }
	pod := "apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: t}\nspec: {containers: [" + container("a") + ", " + container("b") + "]}\n"
	patched := map[string]string{
		"kustomization.yaml": "resources: [t.yaml]\npatches: [{path: p.yaml}]\n", "t.yaml": pod,
		"p.yaml": "apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: t}\nspec: {containers: [" + container("c") + "]}\n",
	}
	schema := `{"definitions": {"x": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "x.io", "version": "v1", "kind": "Thing"}], "properties": {"spec":
		{"type": "object", "properties": {"containers": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}}}}}}}`
	before, err := Render(rendered(fleet.BundleDeploymentOptions{}, patched), RenderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := maps.Clone(patched)
	own["kustomization.yaml"] += "openapi: {path: schema.json}\n"
	own["schema.json"] = schema
	merged, err := Render(rendered(fleet.BundleDeploymentOptions{}, own), RenderOptions{})
	if err != nil || merged.Manifest == before.Manifest {
		t.Fatalf("the schema changes nothing, so the test proves nothing: %v\n%s", err, merged.Manifest)
	}
	after, err := Render(rendered(fleet.BundleDeploymentOptions{}, patched), RenderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Manifest, after.Manifest); diff != "" {
		t.Errorf("another bundle's schema changes it: -before +after\n%s", diff)
	}
}
