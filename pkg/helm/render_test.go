package helm

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// rendered is a deployment of bundle app with these files, ready to render.
func rendered(o fleet.BundleDeploymentOptions, files map[string]string) Deployment {
	d := Deployment{ID: IDOf("app", o), Options: o, Memory: release.Record{Owner: release.Owner{BundleID: "app"}}}
	m := content.Manifest{}
	for name, text := range files {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: name, Content: text})
	}
	d.Content = m
	return d
}

func values(v map[string]any) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: v}}}
}

const (
	renderChart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	renderMap   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\ndata: {a: b}\n"
)

func TestRender(t *testing.T) {
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions
		render  RenderOptions
		files   map[string]string
		want    Rendered
	}{
		"Plain": {
			why: "manifests stay as they are, in the order of installation, with their files",
			files: map[string]string{
				"deploy.yaml": renderMap + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n", "README.md": "x",
				"templates/t.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\n",
			},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: "web"},
			want: Rendered{Manifest: "---\n# Source: deploy.yaml\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns\n" +
				"---\n# Source: templates/t.yaml\napiVersion: v1\nkind: Secret\nmetadata:\n  name: app\n  namespace: web\n" +
				"---\n# Source: deploy.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: raw\n"},
		},
		"Chart": {
			why:     "values over the chart's own; CRDs, hooks and notes apart; what the cluster alone knows is named",
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ReleaseName: "r", Values: &fleet.GenericMap{Data: map[string]any{"text": "given"}}, ValuesFrom: []fleet.ValuesFrom{{SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "s"}}}}}},
			files: map[string]string{
				"Chart.yaml": renderChart, "values.yaml": "text: default\nother: kept\n",
				"templates/a.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: {{ .Release.Name }}}\ndata: {t: {{ .Values.text }}, o: {{ .Values.other }}}\n",
				"templates/h.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n",
				"crds/c.yaml":      "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.io}\n", "templates/NOTES.txt": "hello {{ .Values.text }}",
			},
			want: Rendered{
				CRDs:     "---\n# Source: crds/c.yaml\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.io}\n",
				Manifest: "---\n# Source: templates/a.yaml\napiVersion: v1\ndata:\n  o: kept\n  t: given\nkind: ConfigMap\nmetadata:\n  name: r\n",
				Hooks:    "---\n# Source: templates/h.yaml\nkind: Pod\napiVersion: v1\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n",
				Notes:    "hello given", Unknown: []string{"Secret default/s"},
			},
		},
		"Kustomize": {
			why: "the kustomization runs over what the chart renders",
			files: map[string]string{
				"Chart.yaml": renderChart, "templates/a.yaml": renderMap,
				"kustomization.yaml": "namePrefix: p-\nresources: [more.yaml]\n", "more.yaml": strings.Replace(renderMap, "raw", "more", 1),
			},
			want: Rendered{Manifest: "---\n# Source: kustomization.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: p-raw\n" +
				"---\n# Source: kustomization.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: p-more\n"},
		},
		"NoKind": {
			why: "what is not installed is named",
			files: map[string]string{
				"Chart.yaml": renderChart, "templates/a.yaml": renderMap, "templates/b.yaml": "apiVersion: v1\nmetadata: {name: b}\n---\n# nothing\n",
			},
			want: Rendered{
				Manifest: "---\n# Source: templates/a.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: raw\n", Skipped: []string{"templates/b.yaml"},
			},
		},
		"Forced": {
			why:     "the one namespace is forced on kinds of Kubernetes, of the bundle's CRDs and on unknown ones",
			options: fleet.BundleDeploymentOptions{TargetNamespace: "only"},
			files:   map[string]string{"a.yaml": renderMap + "---\napiVersion: x.io/v1\nkind: Thing\nmetadata: {name: x, namespace: other}\n"},
			want: Rendered{Manifest: "---\n# Source: a.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: raw\n  namespace: only\n" +
				"---\n# Source: a.yaml\napiVersion: x.io/v1\nkind: Thing\nmetadata:\n  name: x\n  namespace: only\n"},
		},
		"Marks": {
			why: "as the agent marks its objects", render: RenderOptions{Marks: true},
			files: map[string]string{"a.yaml": renderMap},
			want: Rendered{Manifest: "---\n# Source: a.yaml\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  annotations:\n    objectset.rio.cattle.io/id: default-app\n" +
				"  labels:\n    objectset.rio.cattle.io/hash: 283d90d253b9fd97eeabbc1c69ef4cb84528e978\n  name: raw\n"},
		},
		"Reaching": {
			why:     "nothing is looked up, no name resolved, also where DNS is not disabled",
			options: values(map[string]any{"host": "localhost"}), render: RenderOptions{KubeVersion: "v1.29.3", APIVersions: []string{"x.io/v1"}},
			files: map[string]string{
				"templates/a.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata:\n  l: '{{ lookup \"v1\" \"Secret\" \"a\" \"b\" }}'\n" +
					"  h: '{{ getHostByName .Values.host }}'\n  k: '{{ .Capabilities.KubeVersion.Version }}'\n  v: '{{ .Capabilities.APIVersions.Has \"x.io/v1\" }}'\n",
			},
			want: Rendered{Manifest: "---\n# Source: templates/a.yaml\napiVersion: v1\ndata:\n  h: \"\"\n  k: v1.29.3\n  l: map[]\n  v: \"true\"\nkind: ConfigMap\nmetadata:\n  name: a\n"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := rendered(c.options, c.files)
			d.Content.Resources = sortedFiles(d.Content.Resources)
			got, err := Render(d, c.render)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Rendered{}, "Objects")); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			again, err := Render(d, c.render)
			if err != nil || again.AllObjects() != got.AllObjects() {
				t.Errorf("a second time it is different: %v", err)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions
		render  RenderOptions
		files   map[string]string
		reason  string
		text    string
	}{
		"Template": {
			files:  map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "{{ fail \"set it\" }}"},
			reason: release.ReasonBadTemplate, text: "set it",
		},
		"Secret": {
			why: "values stay out of messages", options: values(map[string]any{"password": "correct-horse"}),
			files:  map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": "{{ fail .Values.password }}"},
			reason: release.ReasonBadTemplate, text: "***",
		},
		"ClusterScoped": {
			why: "what the agent would refuse is refused", options: fleet.BundleDeploymentOptions{TargetNamespace: "only"},
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"},
			reason: release.ReasonClusterScoped, text: "a.yaml: Namespace ns is cluster-scoped",
		},
		"TwiceByTemplates": {
			why:    "the second would take the place of the first",
			files:  map[string]string{"Chart.yaml": renderChart, "templates/a.yaml": renderMap, "templates/b.yaml": renderMap},
			reason: release.ReasonDuplicateObject, text: "templates/b.yaml: ConfigMap raw is in the bundle twice: first in templates/a.yaml",
		},
		"TwiceByNamespace": {
			why:     "without a namespace an object goes into the release's",
			options: fleet.BundleDeploymentOptions{DefaultNamespace: "web"},
			files:   map[string]string{"a.yaml": renderMap, "b.yaml": strings.Replace(renderMap, "name: raw", "name: raw, namespace: web", 1)},
			reason:  release.ReasonDuplicateObject, text: "b.yaml: ConfigMap web/raw is in the bundle twice: first in a.yaml",
		},
		"TwiceByForce": {
			why:     "a forced namespace makes one object of two",
			options: fleet.BundleDeploymentOptions{TargetNamespace: "only"},
			files: map[string]string{
				"a.yaml": strings.Replace(renderMap, "name: raw", "name: raw, namespace: one", 1), "b.yaml": strings.Replace(renderMap, "name: raw", "name: raw, namespace: two", 1),
			},
			reason: release.ReasonDuplicateObject, text: "twice",
		},
		"KubeVersion": {
			files:  map[string]string{"Chart.yaml": renderChart + "kubeVersion: '>=1.40'\n"},
			render: RenderOptions{KubeVersion: "1.30.0"}, reason: release.ReasonIncompatible, text: "1.30.0",
		},
		"BadVersion": {files: map[string]string{"a.yaml": renderMap}, render: RenderOptions{KubeVersion: "new"}, reason: "Error", text: `"new"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(rendered(c.options, c.files), c.render)
			if err == nil || reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: want %s with %q, got %v", c.why, c.reason, c.text, err)
			}
		})
	}
}

// Whatever way a kustomization names something elsewhere, no request is sent
// and no program is run.
func TestRenderSendsNothing(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(renderMap))
	}))
	defer server.Close()
	ran := t.TempDir() + "/ran"
	programs := t.TempDir()
	if err := os.WriteFile(programs+"/git", []byte("#!/bin/sh\ntouch "+ran+"\nexit 1\n"), 0o755); err != nil { //nolint:gosec // it stands in for git
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	patch := "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\ntarget: {kind: ConfigMap}\npath: "
	cases := map[string]map[string]string{
		"Resource":      {"kustomization.yaml": "resources: [" + server.URL + "/a.yaml]\n"},
		"UpperCase":     {"kustomization.yaml": "resources: [" + strings.Replace(server.URL, "http", "HTTP", 1) + "/a.yaml]\n"},
		"GitHub":        {"kustomization.yaml": "resources: [github.com/a/b]\n"},
		"GitGetter":     {"kustomization.yaml": "resources: ['git::" + server.URL + "/a/b']\n"},
		"SCP":           {"kustomization.yaml": "components: ['git@127.0.0.1:a/b']\n"},
		"Patch":         {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: " + server.URL + "}]\n", "a.yaml": renderMap},
		"StrategicOld":  {"kustomization.yaml": "resources: [a.yaml]\npatchesStrategicMerge: [" + server.URL + "]\n", "a.yaml": renderMap},
		"Generator":     {"kustomization.yaml": "configMapGenerator: [{name: a, files: ['k=" + server.URL + "']}]\n"},
		"Env":           {"kustomization.yaml": "secretGenerator: [{name: a, envs: ['" + server.URL + "']}]\n"},
		"OpenAPI":       {"kustomization.yaml": "resources: [a.yaml]\nopenapi: {path: " + server.URL + "}\n", "a.yaml": renderMap},
		"Replacement":   {"kustomization.yaml": "resources: [a.yaml]\nreplacements: [{path: " + server.URL + "}]\n", "a.yaml": renderMap},
		"Nested":        {"kustomization.yaml": "resources: [base]\n", "base/kustomization.yml": "resources: [" + server.URL + "]\n"},
		"Config":        {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": renderMap, "t.yaml": patch + server.URL + "\n"},
		"ConfigInline":  {"kustomization.yaml": "resources: [a.yaml]\ntransformers:\n- |\n  " + strings.ReplaceAll(patch, "\n", "\n  ") + server.URL + "\n", "a.yaml": renderMap},
		"ConfigFolder":  {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t]\n", "a.yaml": renderMap, "t/kustomization.yaml": "resources: [t.yaml]\n", "t/t.yaml": patch + server.URL + "\n"},
		"Configuration": {"kustomization.yaml": "resources: [a.yaml]\nconfigurations: [" + server.URL + "]\n", "a.yaml": renderMap},
		"CRD":           {"kustomization.yaml": "resources: [a.yaml]\ncrds: [" + server.URL + "]\n", "a.yaml": renderMap},
		"Alias":         {"kustomization.yaml": "metadata: {annotations: {x: &u '" + server.URL + "'}}\nresources: [*u]\n"},
		"ChartOutput": {
			"kustomization.yaml": "resources: [a.yaml]\ntransformers: [fleet-manifests.yaml]\n", "a.yaml": renderMap,
			"Chart.yaml": renderChart, "templates/t.yaml": patch + server.URL + "\n",
		},
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(rendered(fleet.BundleDeploymentOptions{}, files), RenderOptions{})
			if !errors.Is(err, ErrRemote) || reconcile.ReasonOf(err) != release.ReasonBadKustomization {
				t.Errorf("want it refused as remote, got %v", err)
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("git was run")
	}
	secret := "https://me:secret@x.example/a"
	_, err := Render(rendered(fleet.BundleDeploymentOptions{}, map[string]string{"kustomization.yaml": "resources: ['" + secret + "']\n"}), RenderOptions{})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the password must not be shown: %v", err)
	}
}

// What only looks like an address is no reason to refuse.
func TestRenderLocalKustomization(t *testing.T) {
	_, err := Render(rendered(fleet.BundleDeploymentOptions{}, map[string]string{
		"overlay/kustomization.yaml": "resources: [../base]\ncommonAnnotations: {home: 'https://x.example'}\nimages: [{name: github.com/a/b, newTag: v1}]\n" +
			"configMapGenerator: [{name: a, literals: ['url=https://x.example']}]\n",
		"base/kustomization.yaml":    "resources: [a.yaml]\n",
		"base/a.yaml":                strings.Replace(renderMap, "a: b", "files: https://x.example", 1),
		"unused/kustomization.yaml":  "resources: [https://x.example]\n",
		"fleet-manifests.yaml":       "",
		"overlay/unrelated/file.txt": "https://x.example",
	}), RenderOptions{})
	if err != nil && errors.Is(err, ErrRemote) {
		t.Errorf("nothing here is elsewhere: %v", err)
	}
	o := fleet.BundleDeploymentOptions{Kustomize: &fleet.KustomizeOptions{Dir: "overlay"}}
	got, err := Render(rendered(o, map[string]string{
		"overlay/kustomization.yaml": "resources: [../base]\ncommonAnnotations: {home: 'https://x.example'}\n",
		"base/kustomization.yaml":    "resources: [a.yaml]\n", "base/a.yaml": renderMap,
	}), RenderOptions{})
	if err != nil || !strings.Contains(got.Manifest, "home: https://x.example") {
		t.Errorf("got %v, %s", err, got.Manifest)
	}
}

// Kinds of Kubernetes that are known here are kinds that exist.
func TestBuiltIn(t *testing.T) {
	newer := map[string]bool{"ComponentStatus": false, "DeviceTaintRule": true}
	for group, kinds := range clusterKinds {
		if group == fleet.Group || group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io" {
			continue
		}
		for kind := range strings.FieldsSeq(kinds) {
			if newer[kind] {
				continue
			}
			if versions := scheme.Scheme.VersionsForGroupKind(schema.GroupKind{Group: group, Kind: kind}); len(versions) == 0 {
				t.Errorf("%s of %q is unknown to Kubernetes", kind, group)
			}
		}
	}
	if BuiltIn(schema.GroupKind{Kind: "Namespace"}) || !BuiltIn(schema.GroupKind{Kind: "Pod"}) || !BuiltIn(schema.GroupKind{Group: "x.io", Kind: "Namespace"}) {
		t.Error("Namespaces are cluster-scoped, Pods are not")
	}
}

func sortedFiles(in []fleet.BundleResource) []fleet.BundleResource {
	slices.SortFunc(in, func(a, b fleet.BundleResource) int { return strings.Compare(a.Name, b.Name) })
	return in
}
