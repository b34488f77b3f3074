package helm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestOverlaid(t *testing.T) {
	const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template: {spec: {containers: [{name: web, image: web:1}, {name: log, image: log:1}]}}
`
	cases := map[string]struct {
		why      string
		files    map[string]string
		overlays []string
		want     map[string]string // as YAML, whatever the layout
		err      string
	}{
		"None": {
			why:   "what is in the folder overlays is for those who ask for it",
			files: map[string]string{"a.yaml": "a: 1", "overlays/prod/a.yaml": "a: 2"},
			want:  map[string]string{"a.yaml": "a: 1"},
		},
		"ReplaceAndAdd": {
			why:      "a file of the overlay takes the place of the bundle's, or comes to them",
			files:    map[string]string{"a.yaml": "a: 1", "overlays/prod/a.yaml": "a: 2", "overlays/prod/sub/b.yaml": "b: 1", "overlays/dev/c.yaml": "c: 1"},
			overlays: []string{"prod"},
			want:     map[string]string{"a.yaml": "a: 2", "sub/b.yaml": "b: 1"},
		},
		"Order": {
			why:      "the last overlay wins",
			files:    map[string]string{"overlays/x/a.yaml": "a: x", "overlays/y/a.yaml": "a: y"},
			overlays: []string{"y", "x"},
			want:     map[string]string{"a.yaml": "a: x"},
		},
		"Strategic": {
			why: "containers are one list by name", overlays: []string{"prod"},
			files: map[string]string{"web.yaml": web, "overlays/prod/web_patch.yaml": "spec: {replicas: 3, template: {spec: {containers: [{name: web, image: web:2}]}}}"},
			want:  map[string]string{"web.yaml": strings.Replace(strings.Replace(web, "replicas: 1", "replicas: 3", 1), "web:1", "web:2", 1)},
		},
		"Merge": {
			why: "of a kind that Kubernetes does not know, lists are replaced", overlays: []string{"prod"},
			files: map[string]string{"dir/x.yml": "apiVersion: x.example/v1\nkind: X\nlist: [1, 2]\nkeep: 1\ngone: 1", "overlays/prod/dir/x_patch.yml": "list: [3]\ngone: null"},
			want:  map[string]string{"dir/x.yml": "apiVersion: x.example/v1\nkind: X\nlist: [3]\nkeep: 1"},
		},
		"JSONPatch": {
			why: "a list is a JSON patch", overlays: []string{"prod"},
			files: map[string]string{"web.yaml": web, "overlays/prod/web_patch.yaml": "- {op: replace, path: /spec/replicas, value: 5}"},
			want:  map[string]string{"web.yaml": strings.Replace(web, "replicas: 1", "replicas: 5", 1)},
		},
		"PatchOfTheOverlay": {
			why: "a patch may be for a file that the overlay brings, whatever their names", overlays: []string{"prod"},
			files: map[string]string{"overlays/prod/a_patch.yaml": "a: 2", "overlays/prod/a.yaml": "a: 1\nb: 1"},
			want:  map[string]string{"a.yaml": "a: 2\nb: 1"},
		},
		"NoBase": {
			why: "nothing to patch is a mistake", overlays: []string{"prod"},
			files: map[string]string{"overlays/prod/a_patch.yaml": "a: 2"},
			err:   `overlays/prod/a_patch.yaml: there is no file "a.yaml" to patch`,
		},
		"Documents": {
			why: "a patch of one of several documents would lose the others", overlays: []string{"prod"},
			files: map[string]string{"a.yaml": "a: 1\n---\nb: 1", "overlays/prod/a_patch.yaml": "a: 2"},
			err:   "a.yaml cannot be patched: it holds several documents",
		},
		"BrokenPatch": {
			why: "the error names the file", overlays: []string{"prod"},
			files: map[string]string{"a.yaml": "a: 1", "overlays/prod/a_patch.yaml": "a: ["},
			err:   "overlays/prod/a_patch.yaml: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var files []file
			for name, text := range c.files {
				files = append(files, file{name: name, data: []byte(text)})
			}
			got, err := overlaid(files, c.overlays)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || reconcile.ReasonOf(err) != release.ReasonBadYAML {
					t.Fatalf("%s: want %q, got %v", c.why, c.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			texts := map[string]string{}
			for _, f := range got {
				texts[f.name] = string(f.data)
			}
			if diff := cmp.Diff(decoded(t, c.want), decoded(t, texts)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func decoded(t *testing.T, texts map[string]string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, text := range texts {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}
