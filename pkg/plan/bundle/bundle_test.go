package bundle

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

var update = flag.Bool("update", false, "write the golden files")

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// files makes a tree of texts. A text that starts with "-> " is a link.
func files(texts map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range texts {
		if link, ok := strings.CutPrefix(text, "-> "); ok {
			tree[name] = &fstest.MapFile{Data: []byte(link), Mode: os.ModeSymlink | 0o777}
			continue
		}
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return tree
}

func TestDiscover(t *testing.T) {
	tree := files(map[string]string{
		"README.md":               "x",
		"a/cm.yaml":               configMap,
		"a/deep/fleet.yaml":       "",
		"a/deep/er/fleet.yml":     "",
		"b/fleet.yaml":            "",
		"c/only/fleet.yaml":       "",
		"c/only/cm.yaml":          configMap,
		"d/text.txt":              "x",
		"d/.github/workflow.yaml": "x: y",
		"e/.git/fleet.yaml":       "",
		"f/sub/cm.yml":            configMap,
	})
	cases := map[string]struct {
		why   string
		paths []string
		want  []string
		found []string
	}{
		"Root":         {why: "the root owns a/cm.yaml and f/sub/cm.yml", want: []string{".", "a/deep", "a/deep/er", "b", "c/only"}},
		"Directory":    {paths: []string{"a"}, want: []string{"a", "a/deep", "a/deep/er"}},
		"LeadingSlash": {paths: []string{"/b/"}, want: []string{"b"}},
		"OnlyNested":   {why: "c owns nothing itself", paths: []string{"c"}, want: []string{"c/only"}},
		"Subdirectory": {why: "YAML further down counts", paths: []string{"f"}, want: []string{"f"}},
		"Glob":         {paths: []string{"[ab]"}, want: []string{"a", "a/deep", "a/deep/er", "b"}},
		"Twice":        {paths: []string{"a/deep", "a"}, want: []string{"a", "a/deep", "a/deep/er"}},
		"Hidden":       {why: "hidden files are never deployed, so they make no bundle", paths: []string{"d"}},
		"GitItself":    {paths: []string{"e"}},
		"Nowhere":      {paths: []string{"x", "b"}, want: []string{"b"}, found: []string{"x:1:1: warning: the repository has no such directory [empty]"}},
		"AFile":        {paths: []string{"README.md"}, found: []string{"README.md:1:1: warning: the repository has no such directory [empty]"}},
		"Outside":      {paths: []string{"../x"}, found: []string{"../x:1:1: error: the path leads out of the repository [outside]"}},
		"BadPattern":   {paths: []string{"[a"}, found: []string{"[a:1:1: error: the path is not a valid pattern [value]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dirs, found := Discover(tree, c.paths)
			var got []string
			for _, d := range dirs {
				got = append(got, d.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.found, texts(found)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
		})
	}
}

func texts(found []finding.Finding) []string {
	var list []string
	for _, f := range found {
		list = append(list, f.String())
	}
	return list
}

func names(b *fleet.Bundle) []string {
	if b == nil {
		return nil
	}
	var list []string
	for _, r := range b.Spec.Resources {
		list = append(list, r.Name)
	}
	return list
}

func TestResources(t *testing.T) {
	cases := map[string]struct {
		why   string
		tree  map[string]string
		limit Limits
		want  []string
		found []string
	}{
		"All": {
			why: "everything but fleet.yaml and what is hidden",
			tree: map[string]string{
				"d/fleet.yaml": "", "d/README.md": "x", "d/b.yaml": configMap, "d/a/c.json": "{}", "d/.hidden": "x", "d/.h/x.yaml": "x", "d/LICENSE": "",
			},
			want: []string{"LICENSE", "README.md", "a/c.json", "b.yaml"},
		},
		"Nested": {
			why:  "files of bundles further down stay in, and so do their fleet.yaml: the renderer knows them by it",
			tree: map[string]string{"d/a.yaml": configMap, "d/sub/fleet.yaml": "", "d/sub/b.yaml": configMap},
			want: []string{"a.yaml", "sub/b.yaml", "sub/fleet.yaml"},
		},
		"FleetYML": {
			why:  "as in the reference",
			tree: map[string]string{"d/fleet.yml": "namespace: x", "d/a.yaml": configMap},
			want: []string{"a.yaml", "fleet.yml"},
		},
		"Ignore": {
			tree: map[string]string{
				"d/.fleetignore": "# comment\n*.md\nsecret.yaml  \nskip/*\n\n", "d/a.yaml": configMap, "d/b.md": "x", "d/sub/secret.yaml": "x: y",
				"d/sub/.fleetignore": "c.yaml", "d/sub/c.yaml": configMap, "d/c.yaml": configMap, "d/skip/x.yaml": configMap, "d/sub/skip/y.yaml": configMap,
				"d/sub2/c.yaml": configMap,
			},
			want: []string{"a.yaml", "c.yaml", "sub2/c.yaml"},
		},
		"IgnoreFileWithAFault": {
			tree:  map[string]string{"d/.fleetignore": "ok\n[a\n", "d/a.yaml": configMap},
			found: []string{"d/.fleetignore:2:1: error: this is not a valid pattern [ignore-file]"},
		},
		"LinkInside": {
			tree: map[string]string{"d/a.yaml": configMap, "d/link.yaml": "-> a.yaml", "d/sub/x": "1", "d/dir": "-> sub"},
			want: []string{"a.yaml", "dir/x", "link.yaml", "sub/x"},
		},
		"LinkToNeighbour": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/link.yaml": "-> ../e/b.yaml", "e/b.yaml": configMap},
			found: []string{"d/link.yaml:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]"},
		},
		"LinkOut": {
			tree: map[string]string{"d/a.yaml": configMap, "d/etc": "-> /etc", "d/up": "-> ../../x", "d/gone": "-> nothing"},
			found: []string{
				"d/etc:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]",
				"d/gone:1:1: error: symbolic link cannot be followed: file does not exist [file]",
				"d/up:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]",
			},
		},
		"LinkChainOut": {
			why:   "what counts is where the whole chain ends",
			tree:  map[string]string{"d/a.yaml": configMap, "d/one": "-> two", "d/two": "-> ../e/b.yaml", "e/b.yaml": configMap},
			found: []string{"d/one:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]", "d/two:1:1: error: symbolic link leads out of the bundle, to e/b.yaml [outside]"},
		},
		"LinkLoop": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/sub/up": "-> ..", "d/loop": "-> loop"},
			found: []string{"d/loop:1:1: error: symbolic link cannot be followed: too many symbolic links [file]", "d/sub/up:1:1: error: symbolic link leads to a directory that it is in [file]"},
		},
		"Nothing":     {why: "skipped without a word", tree: map[string]string{"d/fleet.yaml": "namespace: x"}},
		"TooManyFile": {tree: map[string]string{"d/a": "1", "d/b": "2"}, limit: Limits{Files: 1}, found: []string{"d:1:1: error: the bundle has more than 1 files [too-large]"}},
		"LargeFile":   {tree: map[string]string{"d/a": strings.Repeat("x", 2000)}, limit: Limits{FileBytes: 1024}, found: []string{"d/a:1:1: error: the file is larger than 1 KiB [too-large]"}},
		"LargeSum":    {tree: map[string]string{"d/a": strings.Repeat("x", 600), "d/b": strings.Repeat("x", 600)}, limit: Limits{TotalBytes: 1024}, found: []string{"d:1:1: error: the bundle's files are larger than 1 KiB together [too-large]"}},
		"Deep":        {tree: map[string]string{"d/1/2/3/a": "x"}, limit: Limits{Depth: 2}, found: []string{"d/1/2/3:1:1: error: directories are nested deeper than 2 [too-large]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo", Limits: c.limit})
			if diff := cmp.Diff(c.want, names(r.Bundle)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	const bad = "a: b\n\tc: d\n"
	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
	}{
		"Manifest": {
			tree:  map[string]string{"d/cm.yaml": configMap + "---\na: 1\nb:\n  c: [\n"},
			found: []string{"d/cm.yaml:7:1: error: YAML: did not find expected node content [yaml]"},
		},
		"Tab":       {tree: map[string]string{"d/cm.yaml": bad}, found: []string{"d/cm.yaml:2:1: error: YAML: found a tab character that violates indentation [yaml]"}},
		"Templates": {why: "they are no YAML before they are rendered", tree: map[string]string{"d/a.yaml": configMap, "d/templates/x.yaml": "{{ if }}"}},
		"NotForUs":  {why: "charts and bundles further down are not deployed by this one", tree: map[string]string{"d/a.yaml": configMap, "d/c/Chart.yaml": "name: c", "d/c/x.yaml": bad, "d/e/fleet.yaml": "", "d/e/x.yaml": bad}},
		"Chart":     {why: "templates of a chart are not parsed", tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/templates/x.yaml": "{{ }}", "d/values.yaml": "a: 1"}},
		"ChartFiles": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": bad},
			found: []string{"d/values.yaml:2:1: error: YAML: found a tab character that violates indentation [yaml]"},
		},
		"Kustomization": {
			tree: map[string]string{
				"d/kustomization.yaml": "resources: [base, cm.yaml]\nconfigMapGenerator:\n- name: x\n  files: [any.yaml]\n", "d/any.yaml": "{{ free }} text: [",
				"d/base/kustomization.yaml": "resources: [x.yaml]", "d/base/x.yaml": bad, "d/cm.yaml": configMap,
			},
			found: []string{"d/base/x.yaml:2:1: error: YAML: found a tab character that violates indentation [yaml]"},
		},
		"KustomizationOfATarget": {
			tree: map[string]string{
				"d/fleet.yaml":                         "targetCustomizations:\n- name: prod\n  clusterName: x\n  kustomize: {dir: overlays/prod}\n",
				"d/overlays/prod/kustomization.yaml":   "resources: [../../base]",
				"d/base/kustomization.yaml":            "resources: [\n",
				"d/overlays/other/not-a-manifest.yaml": bad,
			},
			found: []string{"d/base/kustomization.yaml:1:1: error: YAML: did not find expected node content [yaml]"},
		},
		"RemoteRepo": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  repo: https://charts.example\n  chart: web\n", "d/a.yaml": configMap},
			found: []string{`d/fleet.yaml:2:9: error: helm.repo "https://charts.example": downloading charts is not implemented yet [not-implemented]`},
		},
		"RemoteChart": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  chart: https://x/web.tgz\n", "d/a.yaml": configMap},
			found: []string{`d/fleet.yaml:2:10: error: helm.chart "https://x/web.tgz" is no directory here, and downloading charts is not implemented yet [not-implemented]`},
		},
		"RemoteChartOfATarget": {
			why: "each distinct chart is said once, where it stands",
			tree: map[string]string{
				"d/fleet.yaml": "targetCustomizations:\n- clusterName: a\n  helm: {chart: nope}\n- clusterName: b\n  helm: {chart: nope}\n", "d/a.yaml": configMap,
			},
			found: []string{`d/fleet.yaml:3:17: error: helm.chart "nope" is no directory here, and downloading charts is not implemented yet [not-implemented]`},
		},
		"ChartNextDoor": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ../charts/web}\n", "d/a.yaml": configMap, "charts/web/Chart.yaml": "name: web"},
			found: []string{`d/fleet.yaml:1:15: error: helm.chart "../charts/web" is outside of the bundle's directory [outside]`},
		},
		"LocalChart": {tree: map[string]string{"d/fleet.yaml": "helm: {chart: ./web}\n", "d/web/Chart.yaml": "name: web", "d/web/templates/a.yaml": "{{"}},
		"Dependency": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\ndependencies:\n- name: here\n- name: packed\n- name: redis\n", "d/charts/here/Chart.yaml": "name: here", "d/charts/packed-1.2.3.tgz": "x"},
			found: []string{"d/Chart.yaml:1:1: error: dependency redis is not in charts/, and downloading charts is not implemented yet [not-implemented]"},
		},
		"DependencyDisabled": {tree: map[string]string{"d/fleet.yaml": "helm: {disableDependencyUpdate: true}", "d/Chart.yaml": "name: c\ndependencies:\n- name: redis\n"}},
		"ValuesFileMissing": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  chart: .\n  valuesFiles:\n  - values-prod.yaml\n", "d/Chart.yaml": "name: c", "d/values-prod.yml": "a: 1"},
			found: []string{`d/fleet.yaml:4:5: error: values file "values-prod.yaml" does not exist [file]`},
		},
		"ValuesFileOutside": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [../../etc/passwd]}\n", "d/Chart.yaml": "name: c"},
			found: []string{`d/fleet.yaml:1:32: error: values file "../../etc/passwd" is not in the repository [outside]`},
		},
		"ValuesFileBroken": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [v.yaml]}\n", "d/Chart.yaml": "name: c", "d/v.yaml": bad},
			found: []string{"d/v.yaml:2:1: error: YAML: found a tab character that violates indentation [yaml]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo"})
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if (r.Bundle == nil) != (len(c.found) > 0) {
				t.Errorf("want a bundle only without findings, got %v", r.Bundle)
			}
		})
	}
}

func TestValuesFiles(t *testing.T) {
	r := Assemble(files(map[string]string{
		"common/all.yaml": "a: common\nnested: {x: 1, list: [1]}\n",
		"d/fleet.yaml": `helm:
  chart: .
  values: {a: inline, nested: {z: 2, list: [9, 9]}}
  valuesFiles: [../common/all.yaml, values/prod.yaml]
targetCustomizations:
- name: eu
  clusterName: c
  helm: {values: {b: 1}, valuesFiles: [eu.yaml]}
`,
		"d/Chart.yaml": "name: c", "d/values/prod.yaml": "a: prod\n", "d/eu.yaml": "b: 2\n", "d/prod.yaml": "skipped, as in the reference",
	}), Dir{Path: "d"}, Options{Repo: "repo"})
	if r.Bundle == nil {
		t.Fatal(r.Findings)
	}
	want := map[string]any{"a": "prod", "nested": map[string]any{"x": 1.0, "z": 2.0, "list": []any{1.0}}}
	if diff := cmp.Diff(want, r.Bundle.Spec.Helm.Values.Data); diff != "" {
		t.Errorf("files go over values, in order; maps merge, lists do not\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"b": 2.0}, r.Bundle.Spec.Targets[0].Helm.Values.Data); diff != "" {
		t.Error(diff)
	}
	if got := r.Bundle.Spec.Targets[0].Helm.Chart; got != "." {
		t.Errorf("the target takes over the chart, got %q", got)
	}
	if diff := cmp.Diff([]string{"Chart.yaml"}, names(r.Bundle)); diff != "" {
		t.Errorf("files of values are no resources\n%s", diff)
	}
}

func TestOptions(t *testing.T) {
	fleetYAML := `labels: {team: a, app: mine}
serviceAccount: own
namespace: own
keepResources: true
correctDrift: {enabled: true}
targetCustomizations:
- name: prod
  clusterName: x
  namespace: escape
`
	o := Options{
		Repo: "repo", Namespace: "fleet-default",
		Labels:          map[string]string{"app": "theirs", fleet.LabelCommit: "abc", fleet.LabelRepoName: "repo"},
		Targets:         []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}},
		Restrictions:    []fleet.BundleTargetRestriction{{ClusterSelector: &metav1.LabelSelector{}}},
		TargetNamespace: "forced", ServiceAccount: "forced", SyncGeneration: 7, Paused: true,
		CorrectDrift: &fleet.CorrectDrift{Force: true},
	}
	tree := func(text string) fstest.MapFS {
		return files(map[string]string{"d/fleet.yaml": text, "d/cm.yaml": configMap})
	}
	r := Assemble(tree(fleetYAML), Dir{Path: "d"}, o)
	if r.Bundle == nil {
		t.Fatal(r.Findings)
	}
	b := r.Bundle
	check := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n-want +got\n%s", what, diff)
		}
	}
	check("labels of fleet.yaml go before those of the repository",
		map[string]string{"team": "a", "app": "mine", fleet.LabelCommit: "abc", fleet.LabelRepoName: "repo"}, b.Labels)
	check("a customization cannot escape the target namespace", []string{"forced", "forced", "forced"},
		[]string{b.Spec.TargetNamespace, b.Spec.Targets[0].TargetNamespace, b.Spec.Targets[1].TargetNamespace})
	check("service account", "forced", b.Spec.ServiceAccount)
	check("force sync", int64(7), b.Spec.ForceSyncGeneration)
	check("switched on", []bool{true, true, false}, []bool{b.Spec.Paused, b.Spec.KeepResources, b.Spec.DeleteNamespace})
	check("drift correction that is not enabled leaves that of fleet.yaml", &fleet.CorrectDrift{Enabled: true}, b.Spec.CorrectDrift)
	check("customizations come first", []string{"prod", ""}, []string{b.Spec.Targets[0].Name, b.Spec.Targets[1].Name})
	check("restrictions", 1, len(b.Spec.TargetRestrictions))
	check("name", "repo-d", b.Name)

	r = Assemble(tree("overrideTargets:\n- clusterName: z\n"), Dir{Path: "d"}, Options{Repo: "repo", Targets: o.Targets, Restrictions: o.Restrictions})
	check("overriding targets replace those of the repository", []fleet.BundleTarget{{ClusterName: "z"}}, r.Bundle.Spec.Targets)
	check("and its restrictions", []fleet.BundleTargetRestriction{{ClusterName: "z"}}, r.Bundle.Spec.TargetRestrictions)
	r = Assemble(tree("overrideTargets: []\n"), Dir{Path: "d"}, Options{Repo: "repo", Targets: o.Targets, Restrictions: o.Restrictions})
	check("an empty list drops them", []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}, r.Bundle.Spec.Targets)
	check("restrictions too", 0, len(r.Bundle.Spec.TargetRestrictions))
}

func TestCompression(t *testing.T) {
	random := make([]byte, 900_000)
	rand.New(rand.NewSource(1)).Read(random)
	large := strings.Repeat("a: b\n", 210_000)
	cases := map[string]struct {
		why      string
		tree     map[string]string
		compress bool
		want     map[string]string
		found    []string
	}{
		"Text":     {tree: map[string]string{"d/a.txt": "x"}, want: map[string]string{"a.txt": ""}},
		"Binary":   {why: "only what is no text", tree: map[string]string{"d/a.txt": "x", "d/b.bin": "\xff\xfe"}, want: map[string]string{"a.txt": "", "b.bin": "base64+gz"}},
		"Asked":    {tree: map[string]string{"d/a.txt": "x"}, compress: true, want: map[string]string{"a.txt": "base64+gz"}},
		"Large":    {why: "from 1,000,000 bytes on everything is", tree: map[string]string{"d/a.txt": large, "d/b.txt": "x"}, want: map[string]string{"a.txt": "base64+gz", "b.txt": "base64+gz"}},
		"TooLarge": {tree: map[string]string{"d/a.bin": string(random), "d/b.bin": string(random)}, found: []string{"d:1:1: error: the bundle has 2344 KiB, compressed; 1464 KiB can be stored [too-large]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo", Compress: c.compress})
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
			var got map[string]string
			if r.Bundle != nil {
				got = map[string]string{}
				for _, res := range r.Bundle.Spec.Resources {
					got[res.Name] = res.Encoding
					data, err := content.ResourceBytes(res)
					if err != nil || string(data) != c.tree["d/"+res.Name] {
						t.Errorf("%s does not come back: %v", res.Name, err)
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	tree := files(map[string]string{
		"a/fleet.yaml": "name: same\n", "a/cm.yaml": configMap, "b/fleet.yaml": "name: same\n", "b/cm.yaml": configMap,
		"c/cm.yaml": configMap, "d/fleet.yaml": "helm: [\n", "d/cm.yaml": configMap, "e/fleet.yaml": "name: known\nhelm: 5\n",
		"f/prod.yaml": "namespace: prod\n", "f/test.yaml": "namespace: test\n", "f/cm.yaml": configMap,
	})
	set := Read(tree, []string{"a", "b", "c", "d", "e", "none"}, nil, Options{Repo: "repo"})
	var got []string
	for _, r := range set.Results {
		got = append(got, fmt.Sprintf("%s: name %q, bundle %v, broken %v", r.Dir.Path, r.Name, r.Bundle != nil, r.Broken()))
	}
	want := []string{
		`a: name "same", bundle false, broken true`,
		`b: name "same", bundle false, broken true`,
		`c: name "repo-c", bundle true, broken false`,
		`d: name "", bundle false, broken true`,
		`e: name "known", bundle false, broken true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	found := strings.Join(texts(set.All()), "\n")
	for _, text := range []string{`bundle name "same" is also that of b`, `bundle name "same" is also that of a`, "none:1:1: warning", "d/fleet.yaml:1:1: error: YAML"} {
		if !strings.Contains(found, text) {
			t.Errorf("want %q in\n%s", text, found)
		}
	}

	set = Read(tree, []string{"ignored"}, []fleet.BundlePath{{Base: "f", Options: "prod.yaml"}, {Base: "/f", Options: "test.yaml"}, {Base: "x"}}, Options{Repo: "repo"})
	got = nil
	for _, r := range set.Results {
		got = append(got, fmt.Sprintf("%s %s %v", r.Name, r.Bundle.Spec.TargetNamespace, names(r.Bundle)))
	}
	want = []string{"repo-f-prod prod [cm.yaml test.yaml]", "repo-f-test test [cm.yaml prod.yaml]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a list of bundles\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x:1:1: error: the repository has no such directory [file]"}, texts(set.Findings)); diff != "" {
		t.Error(diff)
	}
	if !Read(files(map[string]string{"README.md": "x"}), nil, nil, Options{}).Empty() || set.Empty() {
		t.Error("a repository is empty only if nothing in it is a bundle, broken or not")
	}
}

// What we make of our own example, to be read in reviews.
func TestGolden(t *testing.T) {
	set := Read(os.DirFS("testdata/TestGolden/input"), nil, nil, Options{
		Repo: "repo", Namespace: "fleet-default", Labels: map[string]string{fleet.LabelCommit: strings.Repeat("0", 40)},
	})
	var out strings.Builder
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		printed, err := Export(r.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := sigyaml.Marshal(printed)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s", raw)
	}
	for _, f := range set.All() {
		fmt.Fprintf(&out, "# %s\n", f)
	}
	golden := "testdata/TestGolden/bundles.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The reference's own command line made these Bundles; ours must be equal. The
// examples are not part of this repository.
func TestEqualToReference(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "shared", "data")
	expected, err := filepath.Glob(filepath.Join(data, "fleet-examples-bundles", "*.yaml"))
	if err != nil || len(expected) == 0 {
		t.Skip("no examples of the reference beside this repository")
	}
	root := os.DirFS(filepath.Join(data, "fleet-examples"))
	dirs := map[string]string{}
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(data, "fleet-examples", pattern))
		for _, dir := range found {
			rel, _ := filepath.Rel(filepath.Join(data, "fleet-examples"), dir)
			dirs[strings.ReplaceAll(rel, "/", "-")] = rel
		}
	}
	for _, file := range expected {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			set := Read(root, []string{dirs[name]}, nil, Options{
				Repo: "case", Namespace: "fleet-default", Labels: map[string]string{fleet.LabelCommit: strings.Repeat("0", 40)},
			})
			if len(set.Results) != 1 || set.Results[0].Bundle == nil {
				t.Fatal(set)
			}
			got, err := Export(set.Results[0].Bundle)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, raw), normal(t, jsonOf(t, got))); diff != "" {
				t.Errorf("-reference +ours\n%s", diff)
			}
		})
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func normal(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := sigyaml.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"", "#x\n*.md\n", "a/*\n", "[a\n", "a\\ \n", "\r\n x \n", "**/x\n"} {
		f.Add([]byte(s), "name.md")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		list, bad := parseIgnore(data)
		if bad < 0 || bad > strings.Count(string(data), "\n")+1 {
			t.Fatalf("line %d of %q", bad, data)
		}
		ignored(list, name, true)
		ignored(list, name, false)
	})
}
