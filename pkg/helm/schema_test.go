package helm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"helm.sh/helm/v3/pkg/chartutil"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// withSchema are the files of a bundle whose chart has a values.schema.json.
func withSchema(schema string) map[string]string {
	return map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": renderMap, "values.schema.json": schema}
}

// A values.schema.json opens no connection and reads no file of the machine,
// whatever keyword names one.
func TestSchemaOpensNoConnection(t *testing.T) {
	o := newOutside(t)
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"required": ["from-the-machine"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		schema string
		file   bool
	}{
		"Ref":        {schema: `{"$ref": "URL/a.json"}`},
		"UpperCase":  {schema: `{"$ref": "` + strings.Replace(o.url, "http", "HTTP", 1) + `/a.json"}`},
		"Fragment":   {schema: `{"$ref": "URL/a.json#/definitions/x"}`},
		"Nested":     {schema: `{"properties": {"a": {"items": {"anyOf": [{"$ref": "URL/a.json"}]}}}}`},
		"Relative":   {schema: `{"$id": "URL/a.json", "properties": {"a": {"$ref": "b.json"}}}`},
		"OldDraft":   {schema: `{"$schema": "http://json-schema.org/draft-04/schema#", "id": "URL/a.json", "properties": {"a": {"$ref": "b.json"}}}`},
		"Dynamic":    {schema: `{"$dynamicRef": "URL/a.json"}`},
		"MetaSchema": {schema: `{"$schema": "URL/m.json"}`},
		"File":       {schema: `{"$ref": "file://` + secret + `"}`, file: true},
		"FileBeside": {schema: `{"$ref": ".` + secret + `"}`, file: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			schema := strings.ReplaceAll(c.schema, "URL", o.url)
			err := chartutil.ValidateAgainstSingleSchema(chartutil.Values{}, []byte(schema))
			if n, _ := o.count(); n == 0 && !c.file || c.file && (err == nil || !strings.Contains(err.Error(), "from-the-machine")) {
				t.Fatalf("Helm itself does not load it, so the test proves nothing: %v", err)
			}
			for place, files := range map[string]map[string]string{
				"Chart": withSchema(schema),
				"Subchart": {
					"Chart.yaml": renderChart, "charts/sub/Chart.yaml": strings.Replace(renderChart, "name: ", "name: sub-", 1), "charts/sub/values.schema.json": schema,
				},
			} {
				_, err := Render(rendered(fleet.BundleDeploymentOptions{}, files), RenderOptions{})
				if n, _ := o.count(); n > 0 {
					t.Errorf("%s: %d requests", place, n)
				}
				if !errors.Is(err, ErrRemote) || reconcile.ReasonOf(err) != release.ReasonBadChart || !strings.Contains(err.Error(), "skipSchemaValidation") {
					t.Errorf("%s: want it refused, and what to set, got %v", place, err)
				}
			}
			skip := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{SkipSchemaValidation: true}}
			if _, err := Render(rendered(skip, withSchema(schema)), RenderOptions{}); err != nil {
				t.Errorf("a schema that is not used is no reason to refuse: %v", err)
			}
			if n, _ := o.count(); n > 0 {
				t.Errorf("%d requests for a schema that is not to be looked at", n)
			}
		})
	}
}

// A schema that holds all that it names is used as ever.
func TestSchemaOfItsOwn(t *testing.T) {
	for name, schema := range map[string]string{
		"Definitions": `{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/x", "definitions": {"x": {"type": "object"}}}`,
		"WithID":      `{"$id": "https://x.example/values.json", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`,
		"Embedded":    `{"properties": {"a": {"$ref": "https://x.example/b.json"}}, "$defs": {"b": {"$id": "https://x.example/b.json", "type": "string"}}}`,
		"MetaOfOwn":   `{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}}`,
		"URN":         `{"properties": {"a": {"$ref": "urn:example:a"}}}`,
		"Never":       `{"$defs": {"unused": {"$ref": "https://x.example/a.json"}}}`,
	} {
		if _, err := Render(rendered(fleet.BundleDeploymentOptions{}, withSchema(schema)), RenderOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Render(rendered(fleet.BundleDeploymentOptions{}, withSchema(`{"required": ["a"]}`)), RenderOptions{})
	if reconcile.ReasonOf(err) != release.ReasonBadValues {
		t.Errorf("values that do not fit: %v", err)
	}
	if _, err := Template(fstest.MapFS{"Chart.yaml": {Data: []byte(renderChart)}, "values.schema.json": {Data: []byte(`{"$ref": "https://x.example/a.json"}`)}},
		release.ID{Namespace: "a", Name: "b"}, nil, RenderOptions{}); !errors.Is(err, ErrRemote) {
		t.Errorf("Template: want it refused, got %v", err)
	}
	for name, schema := range map[string]string{"NoJSON": `{`, "NoSchema": `{"type": 7}`, "NoAddress": `{"$ref": ":"}`} {
		if _, err := Render(rendered(fleet.BundleDeploymentOptions{}, withSchema(schema)), RenderOptions{}); err == nil || errors.Is(err, ErrRemote) {
			t.Errorf("%s: want Helm's own words, got %v", name, err)
		}
	}
	secret := "https://me:word@x.example/a.json"
	_, err = Render(rendered(fleet.BundleDeploymentOptions{}, withSchema(`{"$ref": "`+secret+`"}`)), RenderOptions{})
	if err == nil || strings.Contains(err.Error(), "word") {
		t.Errorf("the password must not be shown: %v", err)
	}
}

func TestCheckSchemas(t *testing.T) {
	remote, skip := `{"$ref": "https://x.example/a.json"}`, &fleet.HelmOptions{SkipSchemaValidation: true}
	inX := map[string]string{"x/Chart.yaml": renderChart, "x/values.schema.json": remote}
	for name, c := range map[string]struct {
		why     string
		files   map[string]string
		options []*fleet.HelmOptions
		want    error
	}{
		"None":      {"no schema", map[string]string{"Chart.yaml": renderChart}, []*fleet.HelmOptions{nil}, nil},
		"Own":       {"it holds all of it", withSchema(`{"type": "object"}`), []*fleet.HelmOptions{nil}, nil},
		"Remote":    {"it downloads", withSchema(remote), []*fleet.HelmOptions{nil}, ErrRemote},
		"Skipped":   {"it is not used", withSchema(remote), []*fleet.HelmOptions{skip}, nil},
		"Target":    {"it is the chart of one target", inX, []*fleet.HelmOptions{nil, {Chart: "x"}}, ErrRemote},
		"NoChart":   {"no chart has it", map[string]string{"x/values.schema.json": remote}, []*fleet.HelmOptions{nil}, nil},
		"Broken":    {"agents report it in other words", map[string]string{"Chart.yaml": "{", "values.schema.json": remote}, []*fleet.HelmOptions{nil}, nil},
		"Elsewhere": {"the chart is not meant", inX, []*fleet.HelmOptions{nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var m content.Manifest
			for file, text := range c.files {
				m.Resources = append(m.Resources, fleet.BundleResource{Name: file, Content: text})
			}
			var all []fleet.BundleDeploymentOptions
			for _, h := range c.options {
				all = append(all, fleet.BundleDeploymentOptions{Helm: h})
			}
			if err := CheckSchemas(m, all...); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: got %v, want %v", c.why, err, c.want)
			}
		})
	}
}
