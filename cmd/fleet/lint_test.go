package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/lint"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	planlint "github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// linted is what fleet lint prints in dir, as a person sees it: stderr below
// stdout, and the exit code.
func linted(t *testing.T, dir string, args ...string) (out, notes string, code int) {
	t.Helper()
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var stdout, stderr bytes.Buffer
	root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	root.SetArgs(append([]string{"lint"}, args...))
	err := root.ExecuteContext(t.Context())
	if err != nil && !errors.As(err, new(cli.Reported)) {
		stderr.WriteString("error: " + err.Error() + "\n")
	}
	return stdout.String(), stderr.String(), cli.ExitCode(err, false)
}

// files writes a tree into a directory of its own. What begins with "-> " is a
// symbolic link.
func files(t *testing.T, tree map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tree {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(to, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// broken is a copy of testdata/lint, with the link that a repository here
// cannot hold.
func broken(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/lint")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/ssl", filepath.Join(dir, "broken", "db", "certs")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each golden file holds what one command prints about the same broken tree.
func TestLintTranscripts(t *testing.T) {
	golden1, err := filepath.Abs("testdata/lint/golden")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]string{
		"text.txt":     {"--cluster-file", "clusters.yaml", "broken"},
		"samples.txt":  {"broken"},
		"strict.txt":   {"--strict", "--rule", "-render", "--rule", "-empty", "broken/web", "broken/empty"},
		"report.json":  {"-o", "json", "--cluster-file", "clusters.yaml", "broken"},
		"report.sarif": {"-o", "sarif", "--cluster-file", "clusters.yaml", "broken"},
		"github.txt":   {"-o", "github", "--cluster-file", "clusters.yaml", "broken"},
		"rules.txt":    {"--rules"},
		"unknown.txt":  {"--rule", "-unreacheable"},
		"nowhere.txt":  {"nowhere"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			dir := broken(t)
			out, notes, code := linted(t, dir, args...)
			text := "$ fleet lint " + strings.Join(args, " ") + "\n" + strings.ReplaceAll(out, version.Version, "VERSION")
			for line := range strings.Lines(notes) {
				text += "! " + line
			}
			if code != 0 {
				text += string(rune('0'+code)) + "\n"
			}
			golden(t, filepath.Join(golden1, name), text)
		})
	}
}

// An account that the GitRepo does not allow has its line, without the GitRepo too
// where it is Fleet's own.
func TestLintAccount(t *testing.T) {
	custom := "targetCustomizations:\n- name: all\n  clusterSelector: {}\n  serviceAccount: fleet-agent\n"
	cm := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	out, _, code := linted(t, files(t, map[string]string{"app/fleet.yaml": custom, "app/cm.yaml": cm}), "--service-account", "team-a", "app")
	if want := `app/fleet.yaml:4:19: warning: serviceAccount "fleet-agent" is ignored; the repository is deployed as "team-a" [overridden]`; !strings.Contains(out, want) || code != 0 {
		t.Errorf("want %s and 0, got %d:\n%s", want, code, out)
	}
	out, _, code = linted(t, files(t, map[string]string{"app/fleet.yaml": custom, "app/cm.yaml": cm}), "app")
	if want := `app/fleet.yaml:4:19: error: serviceAccount "fleet-agent" is Fleet's own; no bundle may act as it [reserved]`; !strings.Contains(out, want) || code != 4 {
		t.Errorf("want %s and 4, got %d:\n%s", want, code, out)
	}
	chart := map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "app/crds/ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"}
	out, _, code = linted(t, files(t, chart), "app")
	if want := "app/crds/ns.yaml:1:1: error: render: Namespace team is no CustomResourceDefinition"; !strings.Contains(out, want) || code != 4 {
		t.Errorf("want %s and 4, got %d:\n%s", want, code, out)
	}
}

// TestLintExamples finds nothing in the examples, from above, from inside, and
// by an absolute path.
func TestLintExamples(t *testing.T) {
	top, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		dir  string
		args []string
		want string
	}{
		"Above":    {filepath.Dir(top), []string{"--strict", "examples"}, "3 bundles: all fine\n"},
		"Inside":   {top, []string{"--strict"}, "3 bundles: all fine\n"},
		"One":      {filepath.Join(top, "web"), []string{"--strict", "."}, "1 bundle: fine\n"},
		"Absolute": {t.TempDir(), []string{"--strict", top}, "3 bundles: all fine\n"},
		"Several":  {top, []string{"--strict", "web", "settings", "web"}, "2 bundles: all fine\n"},
		"Quiet":    {top, []string{"-q"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, notes, code := linted(t, c.dir, c.args...)
			if out != "" || notes != c.want || code != 0 {
				t.Errorf("want %q, got %q, %q, %d", c.want, out, notes, code)
			}
		})
	}
}

func TestLint(t *testing.T) {
	const chart, cm = "apiVersion: v2\nname: web\nversion: 1.0.0\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	cases := map[string]struct {
		why  string
		tree map[string]string
		args []string
		want string
		code int
	}{
		"Nothing": {
			why:  "a repository that yields nothing is refused",
			tree: map[string]string{"README.md": "x"},
			want: ".:1:1: error: nothing to deploy: no YAML, chart or kustomization here or below [empty]\n    a repository that yields nothing is refused, not pruned\n",
			code: 4,
		},
		"JSONAlone": {
			why:  "JSON is deployed beside other files, and makes no bundle by itself",
			tree: map[string]string{"app/cm.json": "{}"}, args: []string{"app"},
			want: "app:1:1: error: nothing to deploy: no YAML, chart or kustomization here or below [empty]\n    cm.json alone makes no bundle: put a fleet.yaml beside it, which may be empty\n",
			code: 4,
		},
		"JSONWithOptions": {
			why:  "an empty fleet.yaml makes it one",
			tree: map[string]string{"app/cm.json": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, "app/fleet.yaml": ""}, args: []string{"app"},
		},
		"AboveIsFine": {
			why:  "a directory of bundles is none itself",
			tree: map[string]string{"apps/a/fleet.yaml": "{}", "apps/a/cm.yaml": cm}, args: []string{"apps"},
		},
		"UpInTheCheckout": {
			why:  "what fleet.yaml names further up in the checkout is found",
			tree: map[string]string{".git/HEAD": "ref: x", "common.yaml": "a: b", "app/fleet.yaml": "helm: {chart: ., valuesFiles: [../common.yaml]}", "app/Chart.yaml": chart, "app/templates/a.yaml": cm},
			args: []string{"app"},
		},
		"SpecialName": {
			why:  "a directory is not a pattern",
			tree: map[string]string{"a[b]*/cm.yaml": cm}, args: []string{"a[b]*"},
		},
		"OnlyManifestWithoutKind": {
			why:  "the place is that of the manifest, not of fleet.yaml",
			tree: map[string]string{"fleet.yaml": "namespace: a\n", "cm.yaml": "# a\napiVersion: v1\nmetadata: {name: a}\n"},
			want: "cm.yaml:2:1: warning: nothing is left to deploy: no document of the bundle has a kind [empty]\n    add what is missing, or remove the directory to remove the bundle\n" +
				"cm.yaml:2:1: warning: the document has no kind, so it is not deployed [manifest]\n    add what is missing: a .fleetignore that leaves nothing to deploy is an error\n",
		},
		"RenderedWithoutKind": {
			why:  "what a template renders is not left out silently either",
			tree: map[string]string{"Chart.yaml": chart, "templates/a.yaml": cm + "---\nmetadata: {name: b}\n"},
			want: "templates/a.yaml:1:1: warning: render: a document that it renders has no kind, so it is not deployed [manifest]\n    for every sample cluster\n",
		},
		"EveryClusterOfATarget": {
			why: "one cluster of the two has a made-up label, and the failure does not come from it",
			tree: map[string]string{
				"Chart.yaml": chart, "values.yaml": "tier: small\n", "templates/a.yaml": cm + "data:\n  tier: {{ .Values.teir.x }}\n  env: {{ .Values.env }}\n",
				"fleet.yaml": "helm:\n  values: {env: \"${ get .ClusterLabels \\\"env\\\" }\"}\ntargetCustomizations:\n" +
					"- clusterSelector: {matchLabels: {env: prod}}\n  helm: {values: {tier: large}}\n",
			},
			want: "templates/a.yaml:5:19: error: render: .Values.teir.x: there is no value teir; did you mean tier? [render]\n    for every sample cluster\n", code: 4,
		},
		"MadeUpLabelOfATarget": {
			why: "another value of the label may be all right",
			tree: map[string]string{
				"Chart.yaml": chart, "values.yaml": "tier: small\n", "templates/a.yaml": cm + "data: {a: '{{ if ne .Values.env \"dev\" }}{{ fail \"dev\" }}{{ end }}'}\n",
				"fleet.yaml": "helm:\n  values: {env: \"${ get .ClusterLabels \\\"env\\\" }\"}\ntargetCustomizations:\n" +
					"- clusterSelector: {matchLabels: {env: prod}}\n  helm: {releaseName: x}\n",
			},
			want: "templates/a.yaml:4:44: error: render: dev [render]\n    1 of 2 sample clusters: env=prod\n", code: 4,
		},
		"SchemaOfAWrongType": {
			why:  "the values are not at fault",
			tree: map[string]string{"Chart.yaml": chart, "templates/a.yaml": cm + "data: {a: '{{ .Values.m }}'}\n", "fleet.yaml": "helm: {values: {m: \"${ .ClusterValues.m }\"}}\n", "values.schema.json": "{\n  \"type\": \"objct\"\n}\n"},
			want: "values.schema.json:2:11: error: render: Helm cannot use the schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string' [render]\n" +
				"    for every sample cluster\n",
			code: 4,
		},
		"SchemaOfNothing": {
			tree: map[string]string{"Chart.yaml": chart, "templates/a.yaml": cm, "values.schema.json": "{\"properties\": {\"a\": {\"$ref\": \"#/definitions/x\"}}}\n"},
			want: "values.schema.json:1:31: error: render: Helm cannot use the schema: \"#/definitions/x\" is not in it [render]\n" +
				"    for every sample cluster\n",
			code: 4,
		},
		"SchemaOfASubchart": {
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm, "charts/sub/Chart.yaml": strings.Replace(chart, "web", "sub", 1), "charts/sub/values.yaml": "a: b\n",
				"charts/sub/values.schema.json": "{\"properties\": {\"a\": 5}}\n",
			},
			want: "charts/sub/values.schema.json:1:22: error: render: Helm cannot use the schema: got number, want boolean or object [render]\n" +
				"    for every sample cluster\n",
			code: 4,
		},
		"RenderedTwice": {
			tree: map[string]string{"Chart.yaml": chart, "templates/a.yaml": cm, "templates/b.yaml": cm},
			want: "templates/b.yaml:1:1: error: render: ConfigMap a is in the bundle twice: first in templates/a.yaml [duplicate]\n    for every sample cluster\n",
			code: 4,
		},
		"NoSuchFunction": {
			why: "no label of a cluster helps, so it is no guess",
			tree: map[string]string{
				"Chart.yaml": chart, "fleet.yaml": "helm: {values: {tier: \"${ .ClusterLabels.tier }\"}}", "templates/a.yaml": cm + "data: {a: {{ .Values.tier | fooo }}}\n",
			},
			want: "templates/a.yaml:4:1: error: render: function \"fooo\" not defined [template]\n    for every sample cluster\n", code: 4,
		},
		"TemplateOfValues": {
			tree: map[string]string{"Chart.yaml": chart, "fleet.yaml": "helm:\n  values:\n    tier: ${ .ClusterLabels.tier | lowwer }\n", "templates/a.yaml": cm},
			want: "fleet.yaml:3:11: error: template of helm.values.tier: there is no function \"lowwer\" [template]\n    did you mean \"lower\"?\n", code: 4,
		},
		"UnknownCluster": {
			why: "the clusters of --cluster-file are all that there are; of groups it says nothing",
			tree: map[string]string{
				"app/cm.yaml": cm, "app/fleet.yaml": "targetCustomizations:\n- clusterName: shop2\n  namespace: a\n- clusterGroup: eu\n  namespace: b\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: shop1, namespace: w, labels: {a: b}}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:2:16: warning: there is no cluster \"shop2\" in c.yaml [unknown-cluster]\n    did you mean \"shop1\"?\n",
		},
		"MissingLabel": {
			why:  "made-up clusters have what templates ask for",
			tree: map[string]string{"Chart.yaml": chart, "fleet.yaml": "helm: {values: {tier: \"${ .ClusterLabels.tier }\"}}", "templates/a.yaml": cm + "data: {a: '{{ required \"tier\" .Values.tier }}'}\n"},
		},
		"MissingLabelOfRealOne": {
			why: "real ones may not",
			tree: map[string]string{
				"app/Chart.yaml": chart, "app/templates/a.yaml": cm + "# {{ .Values }}\n", "app/fleet.yaml": "helm:\n  values:\n    a: 1\n    tier: ${ .ClusterLabels.tier }\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: w, labels: {a: b}}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:4:11: error: render: helm.values.tier: no value for .ClusterLabels.tier [render]\n    for every sample cluster\n", code: 4,
		},
		"Guess": {
			why:  "what a made-up value breaks may be all right",
			tree: map[string]string{"Chart.yaml": chart, "fleet.yaml": "helm: {values: {m: \"${ .ClusterValues.m }\"}}", "templates/a.yaml": "{{ if ne (int .Values.m) 3 }}{{ fail \"want 3\" }}{{ end }}"},
			want: "templates/a.yaml:1:33: warning: render: want 3 [render]\n    for every sample cluster; the templates ask for what only a real cluster has; say which there are with --cluster-file\n",
		},
		"NoGuessMissingValue": {
			why: "no label gives a value that no template of fleet.yaml sets",
			tree: map[string]string{
				"Chart.yaml": chart, "values.yaml": "logLevel: info\n", "templates/a.yaml": cm + "data:\n  region: {{ .Values.region }}\n  level: {{ .Values.log.level | quote }}\n",
				"fleet.yaml": "helm:\n  values:\n    region: ${ get .ClusterLabels \"region\" }\n",
			},
			want: "templates/a.yaml:6:20: error: render: .Values.log.level: there is no value log; set it in values.yaml of the chart or in helm.values [render]\n    for every sample cluster\n", code: 4,
		},
		"NoGuessSchema": {
			why: "what fleet.yaml says itself does not fit, whatever the label is",
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm, "values.schema.json": `{"type": "object", "properties": {"replicas": {"type": "integer"}, "region": {"type": "string"}}}`,
				"fleet.yaml": "helm:\n  values:\n    replicas: three\n    region: ${ get .ClusterLabels \"region\" }\n",
			},
			want: "fleet.yaml:3:15: error: render: value replicas does not fit the schema of chart web: got string, want integer [render]\n    for every sample cluster\n", code: 4,
		},
		"GuessSchema": {
			why: "the label may be a number",
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm, "values.schema.json": `{"type": "object", "properties": {"replicas": {"type": "integer"}}}`,
				"fleet.yaml": "helm:\n  values:\n    replicas: ${ get .ClusterLabels \"size\" }\n",
			},
			want: "fleet.yaml:3:15: warning: render: value replicas does not fit the schema of chart web: got string, want integer [render]\n    for every sample cluster; " + lint.HintGuessed + "\n",
		},
		"NoGuessInclude": {
			why: "no label defines a template",
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm + "# {{ .Values.tier }}\ndata: {a: {{ include \"nosuch\" . }}}\n", "fleet.yaml": "helm: {values: {tier: \"${ .ClusterLabels.tier }\"}}",
			},
			want: "templates/a.yaml:5:14: error: render: include \"nosuch\" .: error calling include: template: no template \"nosuch\" associated with template \"gotpl\" [render]\n    for every sample cluster\n", code: 4,
		},
		"GuessCustomized": {
			why: "the clusters may be those for which a customization sets the value",
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm + "# {{ .Values.tier }}\ndata: {a: {{ .Values.log.level }}}\n",
				"fleet.yaml": "helm: {values: {tier: \"${ .ClusterLabels.tier }\"}}\ntargetCustomizations:\n- clusterName: c1\n  helm: {values: {log: {level: a}}}\n",
			},
			want: "templates/a.yaml:5:21: warning: render: .Values.log.level: there is no value log; set it in values.yaml of the chart or in helm.values [render]\n" +
				"    1 of 2 sample clusters: any other cluster; " + lint.HintGuessed + "\n",
		},
		"GuessElse": {
			why: "the value is not missing on clusters whose label the chart knows",
			tree: map[string]string{
				"Chart.yaml": chart, "fleet.yaml": "helm: {values: {tier: \"${ .ClusterLabels.tier }\"}}",
				"templates/a.yaml": cm + "{{ if eq .Values.tier \"front\" }}\ndata: {}\n{{ else }}\ndata: {a: {{ .Values.log.level }}}\n{{ end }}\n",
			},
			want: "templates/a.yaml:7:21: warning: render: .Values.log.level: there is no value log; set it in values.yaml of the chart or in helm.values [render]\n    for every sample cluster; " + lint.HintGuessed + "\n",
		},
		"GuessSubchart": {
			why: "a label may switch the chart in the chart off",
			tree: map[string]string{
				"Chart.yaml": chart + "dependencies: [{name: db, version: 1.0.0, condition: db.enabled}]\n", "templates/a.yaml": cm, "charts/db/Chart.yaml": strings.ReplaceAll(chart, "web", "db"),
				"charts/db/templates/b.yaml": "a: {{ .Values.log.level }}\n", "fleet.yaml": "helm: {values: {db: {enabled: \"${ .ClusterLabels.db }\"}}}",
			},
			want: "charts/db/templates/b.yaml:1:14: warning: render: .Values.log.level: there is no value log for the subchart db; set it in values.yaml of the chart or in helm.values [render]\n    for every sample cluster; " + lint.HintGuessed + "\n",
		},
		"ValuesFrom": {
			why:  "values that only the cluster has are not an error",
			tree: map[string]string{"Chart.yaml": chart, "fleet.yaml": "helm: {valuesFrom: [{secretKeyRef: {name: s}}]}", "templates/a.yaml": "a: {{ required \"key\" .Values.key }}\n"},
			want: "templates/a.yaml:1:7: warning: render: key [render]\n    for every sample cluster; the values of helm.valuesFrom are on the clusters, and missing here\n",
		},
		"KubeVersion": {
			tree: map[string]string{"Chart.yaml": chart + "kubeVersion: <1.20\n", "templates/a.yaml": cm}, args: []string{"--kube-version", "v1.30.0"},
			want: "Chart.yaml:4:1: error: render: chart requires kubeVersion: <1.20 which is incompatible with Kubernetes v1.30.0 [render]\n    for every sample cluster\n", code: 4,
		},
		"RendersNothing": {
			tree: map[string]string{"Chart.yaml": chart, "templates/a.yaml": "{{ if false }}a: b{{ end }}"},
			want: ".:1:1: warning: nothing is rendered: no object is left to deploy [empty]\n    for every sample cluster\n",
		},
		"Customization": {
			why: "each customization is rendered for the cluster that it is for",
			tree: map[string]string{
				"Chart.yaml": chart, "templates/a.yaml": cm + "data: {a: {{ .Values.a.b }}}\n",
				"fleet.yaml": "helm: {values: {a: {b: c}}}\ntargetCustomizations:\n- clusterName: c1\n  helm: {values: {a: text}}\n",
			},
			want: "templates/a.yaml:4:21: error: render: .Values.a.b: .Values.a is no mapping, so there is no b in it [render]\n    1 of 2 sample clusters: c1\n", code: 4,
		},
		"OverrideMatchesNone": {
			why: "a bundle that none of the clusters gets is worth a word",
			tree: map[string]string{
				"app/cm.yaml": cm, "app/fleet.yaml": "overrideTargets: [{clusterName: c9}]\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: w}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:1:18: warning: none of the clusters in c.yaml gets the bundle: target 1 wants clusterName c9, this is c1 [unreachable]\n" +
				"app/fleet.yaml:1:33: warning: there is no cluster \"c9\" in c.yaml [unknown-cluster]\n",
		},
		"OverrideMatchesNoneOfSome": {
			why: "the first cluster is named, as for customizations",
			tree: map[string]string{
				"app/cm.yaml": cm, "app/fleet.yaml": "overrideTargets: [{name: none, clusterSelector: {matchLabels: {env: production}}}]\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: w, labels: {env: prod}}\n---\n" +
					"apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c2, namespace: w, labels: {env: dev}}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:1:18: warning: none of the clusters in c.yaml gets the bundle: target 1 \"none\" wants env=production, c1 has env=prod [unreachable]\n",
		},
		"ClusterWithoutLabels": {
			why: "its values are not rendered, so what it lacks is not null",
			tree: map[string]string{
				"app/Chart.yaml": chart, "app/templates/a.yaml": cm + "# {{ .Values }}\n", "app/fleet.yaml": "helm:\n  values:\n    a: 1\n    env: ${ get .ClusterLabels \"env\" }\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: w, labels: {env: prod}}\n---\n" +
					"apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c2, namespace: w}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:4:10: warning: templates of values are not rendered for a cluster without labels: the value is the text of the template [render]\n" +
				"    1 of 2 clusters, such as c2; with any label they are rendered\n",
		},
		"MatchesNone": {
			why: "a customization for clusters that are not there is probably misspelt",
			tree: map[string]string{
				"app/cm.yaml": cm, "app/fleet.yaml": "targetCustomizations:\n- name: p\n  clusterSelector: {matchLabels: {env: pord}}\n  namespace: a\n",
				"c.yaml": "apiVersion: fleet.cattle.io/v1alpha1\nkind: Cluster\nmetadata: {name: c1, namespace: w, labels: {env: prod}}\n",
			},
			args: []string{"--cluster-file", "c.yaml", "app"},
			want: "app/fleet.yaml:2:3: warning: customization \"p\" matches none of the clusters in c.yaml [unreachable]\n    it wants env=pord, c1 has env=prod\n",
		},
		"Circle": {
			why: "each of the bundles is fine, and none of them is deployed",
			tree: map[string]string{
				"apps/a/cm.yaml": cm, "apps/a/fleet.yaml": "namespace: a\nname: a\ndependsOn:\n- name: b\n",
				"apps/b/cm.yaml": cm, "apps/b/fleet.yaml": "namespace: b\nname: b\ndependsOn:\n- name: a\n",
			},
			args: []string{"apps"},
			want: "apps/a/fleet.yaml:4:9: error: dependsOn goes in a circle, so none of these is deployed: a -> b -> a [dependency]\n    take out one of them: here, or in apps/b/fleet.yaml:4\n", code: 4,
		},
		"SharedObject": {
			why:  "each of the bundles is fine, and a cluster refuses one of them",
			tree: map[string]string{"a/fleet.yaml": "namespace: web\n", "a/cm.yaml": "# a\n" + cm, "b/fleet.yaml": "{}", "b/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\n"},
			want: "b/cm.yaml:3:18: warning: ConfigMap web/a is in another bundle too: a/cm.yaml:4 [shared-object]\n    clusters that get both refuse one of them; remove the object from one, or lint directories of different GitRepos apart\n",
		},
		"SharedByCharts": {
			why: "the name is known when the chart is rendered, and its hooks are made and removed by Helm",
			tree: map[string]string{
				"a/fleet.yaml": "{}", "b/fleet.yaml": "{}", "a/Chart.yaml": chart, "a/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Name }}\n",
				"b/Chart.yaml": chart, "b/templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n",
				"a/templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n",
				"b/templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n",
			},
			want: "b/templates/b.yaml:4:9: warning: ConfigMap default/web is in another bundle too: a/templates/a.yaml:4 [shared-object]\n    clusters that get both refuse one of them; remove the object from one, or lint directories of different GitRepos apart\n",
		},
		"OtherNamespaces": {
			why:  "the release namespace makes them two objects",
			tree: map[string]string{"a/fleet.yaml": "defaultNamespace: a\n", "a/cm.yaml": cm, "b/fleet.yaml": "defaultNamespace: b\n", "b/cm.yaml": cm},
		},
		"OtherClusters": {
			why: "no cluster gets both",
			tree: map[string]string{
				"a/fleet.yaml": "overrideTargets: [{clusterSelector: {matchLabels: {env: dev}}}]\n", "a/cm.yaml": cm,
				"b/fleet.yaml": "overrideTargets: [{clusterSelector: {matchLabels: {env: prod}}}]\n", "b/cm.yaml": cm,
			},
		},
		"OtherCustomizations": {
			why: "the namespace differs where both are",
			tree: map[string]string{
				"a/fleet.yaml": "namespace: a\ntargetCustomizations:\n- name: p\n  clusterSelector: {matchLabels: {env: prod}}\n  doNotDeploy: true\n", "a/cm.yaml": cm,
				"b/fleet.yaml": "namespace: b\ntargetCustomizations:\n- name: p\n  clusterSelector: {matchLabels: {env: prod}}\n  namespace: a\n", "b/cm.yaml": cm,
			},
		},
		"SharedByOrder": {
			why:  "a bundle that takes objects over may have one of another, and charts bring the same CRDs",
			tree: map[string]string{"a/fleet.yaml": "namespace: team\n", "a/cm.yaml": cm, "b/fleet.yaml": "namespace: team\nhelm: {takeOwnership: true}\n", "b/cm.yaml": cm},
		},
		"NoCluster": {
			tree: map[string]string{"app/cm.yaml": cm, "c.yaml": cm}, args: []string{"--cluster-file", "c.yaml", "app"},
			code: 1,
		},
		"Link": {
			why:  "nothing outside of the tree is read",
			tree: map[string]string{"app/cm.yaml": "-> ../../../../../../../../../../etc/passwd", "app/fleet.yaml": "{}"}, args: []string{"app"},
			want: "app/cm.yaml:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]\n", code: 4,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, notes, code := linted(t, files(t, c.tree), c.args...)
			if diff := cmp.Diff(c.want, out); diff != "" || code != c.code {
				t.Errorf("%s: exit %d, want %d\n%s\n-want +got\n%s", c.why, code, c.code, notes, diff)
			}
		})
	}
}

// With --offline the command sends no request, and without it only to the hosts
// of charts: templates that want an address get none, and a kustomization that
// names a URL is refused.
func TestLintReachesNothing(t *testing.T) {
	var asked, resolved atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		resolved.Add(1)
		return nil, errors.New("no network in this test")
	}}
	defer func() { net.DefaultResolver = was }()
	if _, err := net.LookupHost("canary.example"); err == nil || resolved.Load() == 0 {
		t.Fatal("the resolver of this test is not asked")
	}
	resolved.Store(0)

	dir := files(t, map[string]string{
		"chart/Chart.yaml":              "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"chart/templates/a.yaml":        "a: {{ getHostByName \"canary.example\" | quote }}\nb: {{ lookup \"v1\" \"Secret\" \"a\" \"b\" | toJson }}\nkind: A\napiVersion: v1\nmetadata: {name: a}\n",
		"values/fleet.yaml":             "helm: {values: {a: \"${ getHostByName \\\"canary.example\\\" }\"}}\n",
		"values/cm.yaml":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"remote/fleet.yaml":             "helm: {repo: \"" + server.URL + "\", chart: web}\n",
		"kustomized/fleet.yaml":         "{}",
		"kustomized/kustomization.yaml": "resources: [\"" + server.URL + "/a.yaml\"]\n",
	})
	out, _, code := linted(t, dir, "--offline")
	want := []string{
		`chart/templates/a.yaml:1:7: warning: template function "getHostByName" asks the DNS of each cluster; it is not asked here [impure]`,
		`values/fleet.yaml:1:20: error: template function "getHostByName" is refused: templates of values reach nothing outside of them [reaches-out]`,
		"remote/fleet.yaml:1:14: error: ", "kustomized/",
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("want %q in\n%s", text, out)
		}
	}
	if code != 4 || asked.Load() != 0 || resolved.Load() != 0 {
		t.Errorf("exit %d, %d requests, %d names looked up\n%s", code, asked.Load(), resolved.Load(), out)
	}

	if _, _, code := linted(t, filepath.Join(dir, "remote")); code != 4 || asked.Load() == 0 || resolved.Load() != 0 {
		t.Errorf("without --offline the repository is asked: exit %d, %d requests, %d names looked up", code, asked.Load(), resolved.Load())
	}
}

// The advice about charts names flags: a user of fleet lint has no Secret.
func TestLintAdvisesFlags(t *testing.T) {
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	plain, secure := httptest.NewServer(refusing), httptest.NewUnstartedServer(refusing)
	defer plain.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for name, c := range map[string]struct {
		url  string
		args []string
		want string
	}{
		"Authority":         {url: secure.URL, want: "; --cacerts-file can name its authority"},
		"AuthorityByPath":   {url: secure.URL, args: []string{"--helm-credentials-by-path-file", "c.yaml"}, want: "; caBundle in the file of --helm-credentials-by-path-file can"},
		"Credentials":       {url: plain.URL, want: ": are there --username and --password-file, and does --helm-repo-url-regex match?"},
		"CredentialsByPath": {url: plain.URL, args: []string{"--helm-credentials-by-path-file", "c.yaml"}, want: ": has the file of --helm-credentials-by-path-file its path,"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, map[string]string{"c.yaml": "other: {username: a, password: Yg==}\n", "a/fleet.yaml": "helm: {repo: \"" + c.url + "\", chart: web}\n"})
			out, notes, code := linted(t, dir, append(c.args, "a")...)
			if code != 4 || !strings.Contains(out, c.want) || strings.Contains(out, "Secret") {
				t.Errorf("code %d, want %q in\n%s%s", code, c.want, out, notes)
			}
		})
	}
}

// A canary among Helm values is in none of the outputs, however the bundle
// fails.
func TestLintKeepsValues(t *testing.T) {
	const canary = "canary-4711"
	chart := "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	trees := map[string]map[string]string{
		"Type":   {"fleet.yaml": "helm: {values: " + canary + "}", "Chart.yaml": chart},
		"Key":    {"fleet.yaml": "helm: {values: {? {a: " + canary + "} : " + canary + "}}", "Chart.yaml": chart},
		"Render": {"fleet.yaml": "helm: {values: {a: " + canary + "}}", "Chart.yaml": chart, "templates/a.yaml": "{{ fail .Values.a }}"},
		"YAML":   {"fleet.yaml": "helm: {values: {a: " + canary + "}}", "Chart.yaml": chart, "templates/a.yaml": "a: [{{ .Values.a }}\nb: {"},
		"Schema": {"fleet.yaml": "helm: {values: {a: " + canary + "}}", "Chart.yaml": chart, "values.schema.json": `{"properties":{"a":{"enum":["x"]}}}`, "templates/a.yaml": "a: b"},
		"Parse":  {"fleet.yaml": "helm: {values: {a: " + canary + ", b: \"${ .ClusterName | atoi | nosuch }\"}}", "Chart.yaml": chart},
	}
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			dir := files(t, tree)
			for _, format := range []string{"", "json", "sarif", "github"} {
				out, notes, code := linted(t, dir, "-o", format)
				if code != 4 || strings.Contains(out+notes, canary) {
					t.Errorf("exit %d; want 4, and the value nowhere in\n%s%s", code, out, notes)
				}
			}
		})
	}
}

// The report has the shape that its schema promises.
func TestLintReportSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(docs, "LintReport.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := broken(t)
	out, _, _ := linted(t, dir, "-o", "json", "broken")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

// A SARIF log names a rule that it describes in each result, and lines from 1.
func TestLintSARIF(t *testing.T) {
	dir := broken(t)
	out, _, _ := linted(t, dir, "-o", "sarif", "broken")
	var log lint.Sarif
	decode := json.NewDecoder(strings.NewReader(out))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) == 0 {
		t.Fatalf("want one run with results, got %+v", log)
	}
	run := log.Runs[0]
	if len(run.Tool.Driver.Rules) != len(planlint.Rules()) {
		t.Error("each rule is described")
	}
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("%s is not rule %d", r.RuleID, r.RuleIndex)
		}
		if r.Level != "error" && r.Level != "warning" {
			t.Errorf("level %q", r.Level)
		}
		for _, l := range r.Locations {
			if region := l.Physical.Region; region != nil && region.StartLine < 1 {
				t.Errorf("line %d", region.StartLine)
			}
		}
	}
}

// docs/cli/lint.md shows what the command prints.
func TestLintPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "lint.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("testdata/lint/golden/text.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+string(shown)+"```\n") {
		t.Error("the transcript in docs/cli/lint.md is not what fleet lint prints; take it from testdata/lint/golden/text.txt")
	}
}

func TestLintPrintsSchema(t *testing.T) {
	want, err := os.ReadFile("../../schemas/fleet.yaml.json")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, code := linted(t, t.TempDir(), "--schema"); code != 0 || out != string(want) {
		t.Errorf("exit code %d, %d bytes instead of %d", code, len(out), len(want))
	}
}
