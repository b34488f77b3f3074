package bundle

import (
	"strings"
	"testing"
)

func TestManifestsThatNoKustomizationNames(t *testing.T) {
	other := func(name string) string { return strings.Replace(configMap, "name: a", "name: "+name, 1) }
	const hint = " (add it to resources of the kustomization, or list it in .fleetignore)"
	unnamed := func(name, of string) string {
		return "d/" + name + ":1:1: warning: b.yaml is not deployed: " + of + " does not name it [not-read]" + hint
	}
	checkSilent(t, map[string]silent{
		"Beside": {
			tree:  map[string]string{"d/kustomization.yaml": "resources: [a.yaml]\n", "d/a.yaml": configMap, "d/b.yaml": other("b"), "d/notes.yaml": "free: text\n", "d/sub/c.yaml": other("c")},
			found: []string{unnamed("b.yaml", "kustomization.yaml")},
		},
		"OfABase": {
			tree: map[string]string{
				"d/fleet.yaml": "kustomize: {dir: overlays/prod}\n", "d/overlays/prod/kustomization.yaml": "resources: [../../base]\n", "d/base/kustomization.yml": "resources: [a.yaml]\n",
				"d/base/a.yaml": configMap, "d/base/b.yaml": other("b"), "d/overlays/other/kustomization.yaml": "resources: []\n", "d/overlays/other/b.yaml": other("b"), "d/b.yaml": other("b"),
			},
			found: []string{unnamed("base/b.yaml", "kustomization.yml")},
		},
		"Named": {
			why: "whatever names a file may use it, from any directory",
			tree: map[string]string{
				"d/kustomization.yaml": "resources: [a.yaml, base]\n# b.yaml is for later\npatches: [{path: c.yaml}]\nconfigMapGenerator: [{name: x, files: [key=d.yaml]}]\ngenerators: [gen.yaml]\n", "d/a.yaml": configMap,
				"d/b.yaml": other("b"), "d/c.yaml": configMap, "d/d.yaml": other("d"), "d/gen.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: [e.yaml]\n",
				"d/e.yaml": other("e"), "d/base/kustomization.yaml": "resources: []\n", "d/base/f.yaml": other("f"), "d/overlay/kustomization.yaml": "resources: [../base/f.yaml]\n",
			},
		},
		"PlainForSome": {
			why:  "clusters without the customization get the manifests",
			tree: map[string]string{"d/fleet.yaml": "targetCustomizations:\n- clusterName: x\n  kustomize: {dir: prod}\n", "d/prod/kustomization.yaml": "resources: [../a.yaml]\n", "d/a.yaml": configMap, "d/prod/b.yaml": other("b")},
		},
		"FilesOfAChart": {
			tree: map[string]string{
				"d/kustomization.yaml": "resources: [fleet-manifests.yaml]\n", "d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": "a: b",
				"d/templates/a.yaml": "{{ .Files.Get \"b.yaml\" }}", "d/b.yaml": other("b"),
			},
		},
		"NoTop": {why: "agents take kustomization.yaml alone at the top", tree: map[string]string{"d/kustomization.yml": "resources: [a.yaml]\n", "d/a.yaml": configMap, "d/b.yaml": other("b")}},
		"Misspelt": {
			why:   "one mistake has one finding",
			tree:  map[string]string{"d/kustomization.yaml": "resources: [aa.yaml]\n", "d/a.yaml": configMap},
			found: []string{`d/kustomization.yaml:1:1: error: "aa.yaml" is not in the bundle [file] (did you mean "a.yaml"?)`},
		},
		"Broken": {
			why:   "what it names is not known",
			tree:  map[string]string{"d/kustomization.yaml": "resources: [a.yaml\n", "d/a.yaml": configMap, "d/b.yaml": other("b")},
			found: []string{"d/kustomization.yaml:1:1: error: YAML: probably a bracket is opened here and not closed, or a text in brackets needs quotes (did not find expected ',' or ']') [yaml] ()"},
		},
	})
}
