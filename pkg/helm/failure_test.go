package helm

import (
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Every text is what an agent reports where Helm's own library refuses these files.
func TestInPlainWords(t *testing.T) {
	schema := `{"properties": {"replicas": {"type": "integer"}, "image": {"properties": {"tag": {"type": "string"}}}}, "additionalProperties": false}`
	elsewhere := values(map[string]any{"tier": "a"})
	elsewhere.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "s"}}}}
	misspelt := map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: b\nc: {{ .Values.teir.x }}\n"}
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions
		files   map[string]string
		want    string
	}{
		"Misspelt": {
			options: values(map[string]any{"tier": "a"}), files: misspelt,
			want: "templates/a.yaml:2:14: .Values.teir.x: there is no value teir; did you mean tier?",
		},
		"ValuesFrom": {
			why: "keys of a Secret are not shown", options: elsewhere, files: misspelt,
			want: `templates/a.yaml:2:13: executing "web/templates/a.yaml" at <.Values.teir.x>: nil pointer evaluating interface {}.x`,
		},
		"Included": {
			files: map[string]string{
				"Chart.yaml": renderChart, "templates/a.yaml": "a: {{ include \"x\" . }}\n", "templates/_h.tpl": "{{ define \"x\" }}\n{{ .Values.b.c }}\n{{ end }}",
			},
			want: "templates/_h.tpl:2:11: .Values.b.c: there is no value b; set it in values.yaml of the chart or in helm.values",
		},
		"Required": {
			why:   "the words of the chart stay as they are",
			files: map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "a: b\nc: {{ required \"no tier\" .Values.tier }}\n"},
			want:  "templates/a.yaml:2:6: no tier",
		},
		"Schema": {
			options: values(map[string]any{"replicas": "three"}), files: withSchema(schema),
			want: "value replicas does not fit the schema of chart web: got string, want integer",
		},
		"SchemaTwice": {
			options: values(map[string]any{"image": map[string]any{"tag": int64(7)}, "color": "red"}), files: withSchema(schema),
			want: "the values do not fit the schema of chart web: additional properties 'color' not allowed; " +
				"value image.tag does not fit the schema of chart web: got number, want string",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := rendered(c.options, c.files)
			_, err := Render(d, RenderOptions{})
			said := d.inPlainWords(err)
			if said == nil || said.Error() != c.want {
				t.Errorf("%s: got %v\nwant %s", c.why, said, c.want)
			}
			if reconcile.ReasonOf(said) != reconcile.ReasonOf(err) || !reconcile.IsTerminal(said) {
				t.Errorf("another kind of error: %v", said)
			}
		})
	}
}
