package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// refused renders files and demands that nothing was sent, that no temporary folder
// is left, and an error if the kustomization loads something elsewhere.
func (o *outside) refused(t *testing.T, what string, class string, files map[string]string) {
	t.Helper()
	_, err := Render(rendered(fleet.BundleDeploymentOptions{}, files), RenderOptions{})
	if n, started := o.count(); n > 0 || started {
		t.Errorf("%s: %d requests, program started: %v (%v)", what, n, started, err)
	}
	if dirs := o.kept(t); len(dirs) > 0 {
		t.Errorf("%s: %q left (%v)", what, dirs, err)
	}
	switch {
	case class == loads && !errors.Is(err, ErrRemote), class == starts && !errors.Is(err, ErrProgram),
		class != neither && reconcile.ReasonOf(err) != release.ReasonBadKustomization:
		t.Errorf("%s: want it refused, got %v", what, err)
	}
}

// unguarded reports whether kustomize alone, as the agent configures it, sends a
// request or starts a program for these files. Kustomize leaves a folder for each clone
// that fails.
func (o *outside) unguarded(t *testing.T, files map[string]string) bool {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	for name, text := range files {
		if err := fs.WriteFile("/"+name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/")
	_ = o.kept(t)
	n, started := o.count()
	return n > 0 || started
}

// A kustomization opens no connection and starts no program, whatever field an
// address is in, however the field is spelled, and wherever the kustomization is.
func TestKustomizationOpensNoConnection(t *testing.T) {
	o := newOutside(t)
	placed := map[string]func(string) map[string]string{
		"Top": func(k string) map[string]string {
			return map[string]string{"kustomization.yaml": k, "a.yaml": renderMap}
		},
		"Base": func(k string) map[string]string {
			return map[string]string{"kustomization.yaml": "resources: [base]\n", "base/Kustomization": k, "base/a.yaml": renderMap}
		},
		"OldBase": func(k string) map[string]string {
			return map[string]string{"kustomization.yaml": "Bases: [base]\n", "base/kustomization.yml": k, "base/a.yaml": renderMap}
		},
		"Component": func(k string) map[string]string {
			return map[string]string{"kustomization.yaml": "resources: [a.yaml]\ncomponents: [c]\n", "a.yaml": strings.Replace(renderMap, "raw", "other", 1),
				"c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n" + k, "c/a.yaml": renderMap}
		},
		"Chart": func(k string) map[string]string {
			return map[string]string{"kustomization.yaml": k, "a.yaml": renderMap, "Chart.yaml": renderChart, "templates/t.yaml": strings.Replace(renderMap, "raw", "chart", 1)}
		},
	}
	for p, class := range kustomizationTexts {
		values := []any{o.url + "/a/b"}
		if strings.HasSuffix(p, "files[]") {
			values = append(values, "k="+o.url+"/a/b")
		}
		for _, value := range values {
			doc := kustomizationWith(p, value)
			if class == loads && !o.unguarded(t, placed["Top"](yamlOf(t, doc))) {
				t.Errorf("%s: kustomize itself does not load it, so the test proves nothing", p)
			}
			for spelling, spell := range spellings {
				text := yamlOf(t, respell(doc, spell))
				for place, files := range placed {
					if class == neither && (place != "Top" || spelling != "Exact") {
						continue // it is enough to see once that it is neither
					}
					o.refused(t, strings.Join([]string{p, spelling, place}, " "), class, files(text))
				}
			}
			key, _, _ := strings.Cut(strings.ReplaceAll(p, "[]", ""), ".")
			rest := maps.Clone(doc)
			delete(rest, key)
			inline, err := json.Marshal(map[string]any{key: doc[key]})
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"EmptyBefore": strings.ToUpper(key) + ": null\n" + yamlOf(t, doc),
				"EmptyAfter":  key + ": null\n" + yamlOf(t, rest) + spellings["Fold"](key) + ": " + yamlFlow(t, doc[key]) + "\n",
				"Merged":      "<<: " + string(inline) + "\n" + yamlOf(t, rest),
				"Anchor":      "metadata: {annotations: {a: &u '" + fmt.Sprint(value) + "'}}\n" + strings.ReplaceAll(yamlOf(t, doc), fmt.Sprint(value), "*u"),
			} {
				if key == "metadata" || name == "EmptyAfter" && spellings["Fold"](key) == key {
					continue
				}
				o.refused(t, p+" "+name, class, placed["Top"](text))
			}
		}
	}
}

func yamlFlow(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Addresses that kustomize knows beside http are refused in the fields that it
// may clone by, and in kustomize.dir.
func TestKustomizationStartsNoProgram(t *testing.T) {
	o := newOutside(t)
	for _, address := range []string{
		"git@127.0.0.1:a/b", "github.com/a/b", "GitHub.com/a/b", "gİthub.com/a/b", "github.com:a/b", "git::https://127.0.0.1/a/b",
		"GIT::ssh://git@127.0.0.1/a/b", "ssh://127.0.0.1/a/b", "file:///etc/a", "FILE:///etc/a", "https://127.0.0.1/a/b.git?ref=x",
		"org-1@127.0.0.1:a/b", "HTTPS://127.0.0.1/a/b",
	} {
		for _, field := range []string{"resources", "components", "bases", "generators", "transformers", "validators"} {
			for spelling, spell := range spellings {
				files := map[string]string{"kustomization.yaml": spell(field) + ": ['" + address + "']\n"}
				if spelling == "Exact" && field == "resources" && !o.unguarded(t, files) {
					t.Errorf("%s: kustomize itself does not take it for an address", address)
				}
				o.refused(t, address+" "+field+" "+spelling, loads, files)
			}
		}
		dir := strings.Trim(filepath.Clean(address), "/")
		options := fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: address}}
		_, err := Render(rendered(options, map[string]string{dir + "/kustomization.yaml": "resources: [a.yaml]\n", dir + "/a.yaml": renderMap}), RenderOptions{})
		if n, started := o.count(); n > 0 || started {
			t.Errorf("kustomize.dir %s: %d requests, program started: %v (%v)", address, n, started, err)
		}
	}
}

// Configurations of generators, transformers and validators open no connection
// either, wherever they are, and also if a patch writes the address.
func TestPluginOpensNoConnection(t *testing.T) {
	o := newOutside(t)
	needs := map[string]map[string]any{
		"PatchTransformer":         {"target": map[string]any{"kind": "ConfigMap"}},
		"PatchJson6902Transformer": {"target": map[string]any{"version": "v1", "kind": "ConfigMap", "name": "raw"}},
		"ValueAddTransformer":      {"targets": []any{map[string]any{"fieldPath": "data/x", "selector": map[string]any{"kind": "ConfigMap"}}}},
	}
	for kind, known := range pluginTexts {
		field := "transformers"
		if strings.HasSuffix(kind, "Generator") {
			field = "generators"
		}
		for p, class := range known {
			base := map[string]any{}
			if n := needs[kind]; n != nil {
				base = maps.Clone(n)
			}
			doc := setText(base, p, o.url+"/a/b")
			for spelling, spell := range spellings {
				config, _ := respell(doc, spell).(map[string]any)
				config["apiVersion"], config["kind"] = "builtin", kind
				if config["metadata"] == nil {
					config["metadata"] = map[string]any{"name": "p"}
				}
				if m, ok := config["metadata"].(map[string]any); ok && m["name"] == nil {
					m["name"] = "p"
				}
				for place, files := range pluginFiles(t, field, config) {
					if spelling == "Exact" && class == loads && !o.unguarded(t, files) {
						t.Errorf("%s %s %s: kustomize itself does not load it, so the test proves nothing", kind, p, place)
					}
					if class == neither && (place != "File" || spelling != "Exact") {
						continue
					}
					o.refused(t, strings.Join([]string{kind, p, spelling, place}, " "), class, files)
				}
			}
		}
	}
}

func pluginFiles(t *testing.T, field string, config map[string]any) map[string]map[string]string {
	text := yamlOf(t, config)
	list := yamlOf(t, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"name": "l"}, "items": []any{config}})
	k := "resources: [a.yaml]\n" + field + ": "
	return map[string]map[string]string{
		"File":   {"kustomization.yaml": k + "[t.yaml]\n", "a.yaml": renderMap, "t.yaml": text},
		"Title":  {"kustomization.yaml": "resources: [a.yaml]\n" + strings.ToUpper(field) + ": [t.yaml]\n", "a.yaml": renderMap, "t.yaml": text},
		"Root":   {"kustomization.yaml": k + "[/t.yaml]\n", "a.yaml": renderMap, "t.yaml": text},
		"List":   {"kustomization.yaml": k + "[t.yaml]\n", "a.yaml": renderMap, "t.yaml": list},
		"Stream": {"kustomization.yaml": k + "[t.yaml]\n", "a.yaml": renderMap, "t.yaml": "# only a comment\n---\n" + text},
		"Inline": {"kustomization.yaml": k + "\n" + yamlOf(t, []any{text}), "a.yaml": renderMap},
		"Flow":   {"kustomization.yaml": k + "\n" + yamlOf(t, []any{yamlFlow(t, config)}), "a.yaml": renderMap},
		"Folder": {"kustomization.yaml": k + "[t]\n", "a.yaml": renderMap, "t/kustomization.yaml": "Resources: [../u]\n", "u/kustomization.yml": "resources: [t.yaml]\n", "u/t.yaml": text},
		"Base":   {"kustomization.yaml": "resources: [b]\n", "b/kustomization.yaml": k + "[t.yaml]\n", "b/a.yaml": renderMap, "b/t.yaml": text},
	}
}

// An address that only comes about while kustomize builds the configuration of
// a transformer cannot be judged before, so such kustomizations are refused.
func TestComputedPluginOpensNoConnection(t *testing.T) {
	o := newOutside(t)
	scheme, rest, _ := strings.Cut(o.url, ":")
	harmless := "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\ntarget: {kind: ConfigMap}\npath: p.yaml\n"
	split := strings.Replace(harmless, "p.yaml", "'"+rest+"'", 1)
	cases := map[string]map[string]string{
		"JSONPatch": {"t/kustomization.yaml": "resources: [t.yaml]\npatches:\n- target: {kind: PatchTransformer}\n  patch: '[{\"op\": \"add\", \"path\": \"/path\", \"value\": \"" + o.url + "\"}]'\n"},
		"Strategic": {"t/kustomization.yaml": "resources: [t.yaml]\npatches: [{path: patch.yaml}]\n", "t/patch.yaml": strings.Replace(harmless, "p.yaml", o.url, 1)},
		"Component": {"t/kustomization.yaml": "resources: [t.yaml]\ncomponents: [c]\n", "t/c/kustomization.yaml": "kind: Component\npatches:\n- target: {kind: PatchTransformer}\n  patch: '[{\"op\": \"add\", \"path\": \"/path\", \"value\": \"" + o.url + "\"}]'\n"},
		"Prefix":    {"t/kustomization.yaml": "resources: [t.yaml]\nnamePrefix: '" + scheme + ":'\nconfigurations: [c.yaml]\n", "t/c.yaml": "namePrefix: [{path: path}]\n", "t/t.yaml": split},
		"Replacement": {"t/kustomization.yaml": "resources: [t.yaml]\nreplacements:\n- source: {kind: PatchTransformer, fieldPath: metadata.annotations.u}\n  targets: [{select: {kind: PatchTransformer}, fieldPaths: [path]}]\n",
			"t/t.yaml": strings.Replace(harmless, "{name: p}", "{name: p, annotations: {u: '"+o.url+"'}}", 1)},
		"Nested": {"t/kustomization.yaml": "resources: [u]\n", "t/u/kustomization.yaml": "resources: [t.yaml]\nPatches: [{path: patch.yaml}]\n", "t/u/t.yaml": harmless, "t/u/patch.yaml": strings.Replace(harmless, "p.yaml", o.url, 1)},
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			files["kustomization.yaml"], files["a.yaml"] = "resources: [a.yaml]\ntransformers: [t]\n", renderMap
			if files["t/t.yaml"] == "" {
				files["t/t.yaml"] = harmless
			}
			if !o.unguarded(t, files) {
				t.Error("kustomize itself does not load it, so the test proves nothing")
			}
			_, err := Render(rendered(fleet.BundleDeploymentOptions{}, files), RenderOptions{})
			if n, started := o.count(); n > 0 || started || reconcile.ReasonOf(err) != release.ReasonBadKustomization {
				t.Errorf("%d requests, program started: %v, %v", n, started, err)
			}
		})
	}
}

// Plugins that are programs, containers or scripts are not started.
func TestPluginStartsNoProgram(t *testing.T) {
	o := newOutside(t)
	home := t.TempDir()
	t.Setenv("KUSTOMIZE_PLUGIN_HOME", home)
	plugin := filepath.Join(home, "x.io", "v1", "evil", "Evil")
	if err := os.MkdirAll(filepath.Dir(plugin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\necho >"+o.programs+"\n"), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	functions := []string{"container: {image: x.io/y, network: true}", "exec: {path: evil}", "starlark: {url: '" + o.url + "', name: s}", "starlark: {path: s.star, name: s}"}
	configs := map[string]string{"Program": "apiVersion: x.io/v1\nkind: Evil\nmetadata: {name: e}\n"}
	for i, f := range functions {
		configs[fmt.Sprint("Function", i)] = "apiVersion: x.io/v1\nkind: Evil\nmetadata:\n  name: e\n  annotations:\n    config.kubernetes.io/function: |\n      " + f + "\n"
	}
	for name, config := range configs {
		for _, field := range []string{"generators", "transformers", "validators"} {
			files := map[string]string{"kustomization.yaml": "resources: [a.yaml]\n" + field + ": [t.yaml]\n", "a.yaml": renderMap, "t.yaml": config}
			_, err := Render(rendered(fleet.BundleDeploymentOptions{}, files), RenderOptions{})
			if n, started := o.count(); n > 0 || started || reconcile.ReasonOf(err) != release.ReasonBadKustomization {
				t.Errorf("%s in %s: %d requests, program started: %v, %v", name, field, n, started, err)
			}
		}
	}
}
