package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/lint"
)

// Objects are checked against the schemas of their kinds, wherever they come from.
func TestLintSchemas(t *testing.T) {
	const (
		chart  = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
		deploy = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replica: 2\n  selector: {matchLabels: {app: web}}\n"
		crd    = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: mills.x.io}\nspec:\n  group: x.io\n  scope: Cluster\n" +
			"  names: {kind: Mill, plural: mills}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n" +
			"        properties: {spec: {type: object, properties: {wings: {type: integer}}}}\n"
		mill    = "apiVersion: x.io/v1\nkind: Mill\nmetadata: {name: old}\nspec: {wing: 4}\n"
		unknown = "mill/a.yaml:2:7: warning: Mill old: kind \"Mill\" of \"x.io/v1\" is unknown: neither Kubernetes nor a CRD here has it [unknown-kind]\n" +
			"    where its CRD comes from elsewhere, give it with --crd-file; agents wait until the cluster has the kind\n"
		field   = "mill/a.yaml:4:8: error: Mill old: unknown field \"spec.wing\" [unknown-field]\n    did you mean \"wings\"?\n"
		replica = ": error: Deployment web: unknown field \"spec.replica\" [unknown-field]\n    did you mean \"replicas\"?\n"
	)
	cases := map[string]struct {
		why  string
		tree map[string]string
		args []string
		want string
		code int
	}{
		"Manifest": {
			why:  "an agent refuses it for the whole bundle",
			tree: map[string]string{"web/a.yaml": deploy}, args: []string{"web"},
			want: "web/a.yaml:5:3" + replica, code: 4,
		},
		"Template": {
			why:  "the line is looked for in the template",
			tree: map[string]string{"web/Chart.yaml": chart, "web/templates/a.yaml": strings.ReplaceAll(deploy, "name: web", "name: {{ .Chart.Name }}")}, args: []string{"web"},
			want: "web/templates/a.yaml:5:3" + replica, code: 4,
		},
		"Kustomization": {
			why:  "the line is that of the patch that brings the field",
			tree: map[string]string{"web/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "web/a.yaml": strings.Replace(deploy, "replica", "replicas", 1), "web/p.yaml": "# more\n" + deploy},
			args: []string{"web"},
			want: "web/p.yaml:6:3" + replica, code: 4,
		},
		"NoCRD": {
			why:  "a CRD may come from elsewhere",
			tree: map[string]string{"mill/a.yaml": mill}, args: []string{"mill"}, want: unknown,
		},
		"NoCRDStrict": {
			why:  "who has all CRDs may insist",
			tree: map[string]string{"mill/a.yaml": mill}, args: []string{"--strict", "mill"}, want: strings.Replace(unknown, "warning", "error", 1), code: 4,
		},
		"SwitchedOff": {
			why:  "or need not know",
			tree: map[string]string{"mill/a.yaml": mill}, args: []string{"--rule", "-unknown-kind", "mill"},
		},
		"CRDOfAnotherBundle": {
			why:  "bundles that are read together know each other's kinds",
			tree: map[string]string{"mill/a.yaml": mill, "crds/c.yaml": crd}, args: []string{"mill", "crds"}, want: field, code: 4,
		},
		"CRDOfAChart": {
			why:  "the crds folder of a chart counts",
			tree: map[string]string{"mill/a.yaml": mill, "op/Chart.yaml": chart, "op/crds/c.yaml": crd}, args: []string{"mill", "op"}, want: field, code: 4,
		},
		"CRDFile": {
			why:  "what clusters have can be said",
			tree: map[string]string{"mill/a.yaml": mill, "known.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(crd), "\n", "\n  ") + "\n"},
			args: []string{"--crd-file", "known.yaml", "mill"}, want: field, code: 4,
		},
		"CRDFileOfNone": {
			why:  "a cluster without any CRD has an empty list of them",
			tree: map[string]string{"mill/a.yaml": mill, "known.yaml": "apiVersion: v1\nkind: List\nitems: []\n"},
			args: []string{"--crd-file", "known.yaml", "mill"}, want: unknown,
		},
		"OlderKubernetes": {
			why:  "kinds count from the version that introduced them",
			tree: map[string]string{"a.yaml": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\n"}, args: []string{"--kube-version", "v1.20.3"},
			want: "a.yaml:1:13: error: CronJob a: Kubernetes 1.20 does not serve CronJob of batch/v1; 1.21 introduced it [api-version]\n", code: 4,
		},
		"MadeUpValue": {
			why: "what is made up may be another value, what stands in the template is none",
			tree: map[string]string{
				"web/Chart.yaml": chart, "web/fleet.yaml": "helm: {values: {size: '${ .ClusterLabels.size }'}}\n",
				"web/templates/a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: {{ .Values.size }}\n  paused: 3\n  selector: {matchLabels: {app: web}}\n",
			},
			args: []string{"web"},
			want: "web/templates/a.yaml:5:3: warning: Deployment web: spec.replicas must be a whole number, not a text [type]\n    " + lint.HintGuessed +
				"\nweb/templates/a.yaml:6:11: error: Deployment web: spec.paused must be true or false, not a number [type]\n", code: 4,
		},
		"Overlay": {
			why:  "what overlays add is checked, too",
			tree: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "overlays/x/a_patch.yaml": "dat: {a: b}\n", "fleet.yaml": "yaml: {overlays: [x]}\n"},
			want: "overlays/x/a_patch.yaml:1:1: error: ConfigMap a: unknown field \"dat\" [unknown-field]\n    did you mean \"data\"?\n", code: 4,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, notes, code := linted(t, files(t, c.tree), c.args...)
			if diff := cmp.Diff(c.want, out); diff != "" || code != c.code {
				t.Errorf("%s: code %d, want %d; %s-want +got\n%s", c.why, code, c.code, notes, diff)
			}
		})
	}
	for _, wrong := range [][]string{{"--kube-version", "latest"}, {"--crd-file", "nowhere.yaml"}, {"--crd-file", "-", "--cluster-file", "-"}} {
		if _, notes, code := linted(t, files(t, nil), wrong...); code != 1 || notes == "" {
			t.Errorf("%v: code %d, %s", wrong, code, notes)
		}
	}
	for name, text := range map[string]string{"Other": "kind: Pod\n", "OtherList": "kind: List\nitems: [{kind: Pod}]\n", "Empty": "", "Comment": "# none\n"} {
		out, notes, code := linted(t, files(t, map[string]string{"mill/a.yaml": mill, "known.yaml": text}), "--crd-file", "known.yaml", "mill")
		if want := "error: no CustomResourceDefinition in known.yaml"; code != 1 || out != "" || !strings.Contains(notes, want) {
			t.Errorf("%s: code %d, %s%s; want %s", name, code, out, notes, want)
		}
	}
}
