package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is wrong with an object of plain manifests is found in the file of the overlays that
// says it.
func TestOverlays(t *testing.T) {
	kinds, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	const (
		unknown   = `: error: Deployment web: unknown field "spec.replica" [unknown-field]`
		wrong     = ": error: Deployment web: spec.replicas must be a whole number, not a text [type]"
		container = `: error: Deployment web: unknown field "spec.template.spec.containers[1].img" [unknown-field]`
	)
	swap := func(from, to string) string { return strings.Replace(deployment, from, to, 1) }
	two := swap("      containers:\n", "      containers:\n      - {name: log, image: log}\n")
	cases := map[string]struct {
		why      string
		files    map[string]string
		overlays []string
		object   string
		want     string
	}{
		"Patch": {
			files: map[string]string{"overlays/p/d_patch.yaml": "spec:\n  replica: 3\n"}, overlays: []string{"p"},
			object: swap("replicas: 2", "replicas: 2\n  replica: 3"), want: "app/overlays/p/d_patch.yaml:2:3" + unknown,
		},
		"ChangedValue": {
			why:   "the patch takes the place of a value that is right",
			files: map[string]string{"overlays/p/d_patch.yaml": "spec:\n  replicas: three\n"}, overlays: []string{"p"},
			object: swap("replicas: 2", "replicas: three"), want: "app/overlays/p/d_patch.yaml:2:13" + wrong,
		},
		"LastPatch": {
			files:    map[string]string{"overlays/p/d_patch.yaml": "spec: {replicas: 3}\n", "overlays/q/d_patch.yaml": "# q\nspec: {replicas: three}\n", "overlays/r/d_patch.yaml": "spec: {replicas: four}\n"},
			overlays: []string{"p", "/q/"},
			object:   swap("replicas: 2", "replicas: three"), want: "app/overlays/q/d_patch.yaml:2:18" + wrong,
		},
		"OfTheBase": {
			why:   "the patch says nothing of it",
			files: map[string]string{"d.yaml": swap("replicas: 2", "replica: 2"), "overlays/p/d_patch.yaml": "spec:\n  paused: true\n"}, overlays: []string{"p"},
			object: swap("replicas: 2", "replica: 2\n  paused: true"), want: "app/d.yaml:7:3" + unknown,
		},
		"Container": {
			why:      "an entry of a list has another place in the patch",
			files:    map[string]string{"d.yaml": two, "overlays/p/d_patch.yaml": "spec:\n  template:\n    spec:\n      containers:\n      - name: web\n        img: x\n"},
			overlays: []string{"p"},
			object:   strings.Replace(two, "- name: web", "- name: web\n        img: x", 1), want: "app/overlays/p/d_patch.yaml:6:9" + container,
		},
		"JSONPatch": {
			files:    map[string]string{"overlays/p/d_patch.yaml": "- {op: add, path: /spec/paused, value: true}\n- op: add\n  path: /spec/replica\n  value: 3\n"},
			overlays: []string{"p"},
			object:   swap("replicas: 2", "replicas: 2\n  replica: 3"), want: "app/overlays/p/d_patch.yaml:3:9" + unknown,
		},
		"BelowAJSONPatch": {
			files:    map[string]string{"overlays/p/d_patch.yaml": "- op: add\n  path: /spec/template/spec/containers/-\n  value:\n    name: x\n    image: x\n    img: x\n"},
			overlays: []string{"p"},
			object:   deployment + "      - {name: x, image: x, img: x}\n", want: "app/overlays/p/d_patch.yaml:6:5" + container,
		},
		"Replaced": {
			why:      "a file of an overlay takes the place of the bundle's with its patches",
			files:    map[string]string{"overlays/p/d_patch.yaml": "spec:\n  replica: 3\n", "overlays/q/d.yaml": "# q\n" + swap("replicas: 2", "replica: 3")},
			overlays: []string{"p", "q"},
			object:   swap("replicas: 2", "replica: 3"), want: "app/overlays/q/d.yaml:8:3" + unknown,
		},
		"Added": {
			files: map[string]string{"d.yaml": "", "overlays/p/sub/e.yaml": swap("replicas: 2", "replica: 3")}, overlays: []string{"p"},
			object: swap("replicas: 2", "replica: 3"), want: "app/overlays/p/sub/e.yaml:7:3" + unknown,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := map[string][]byte{"d.yaml": []byte(deployment)}
			for name, text := range c.files {
				files[name] = []byte(text)
			}
			source := "d.yaml"
			if name == "Added" {
				source = "sub/e.yaml"
			}
			list := kinds.Findings(Bundle{Dir: "app", Files: files, Rendered: []Rendered{{File: source, Object: Objects([]byte(c.object))[0], Overlays: c.overlays}}})
			if len(list) != 1 {
				t.Fatalf("want one finding, got %v", list)
			}
			if diff := cmp.Diff(c.want, list[0].String()); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.why, diff)
			}
		})
	}
}
