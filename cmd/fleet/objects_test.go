package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
)

// A field of a file that the type of its object does not have is an error with its
// place: dropped, it may add clusters.
func TestUnknownFieldsOfFiles(t *testing.T) {
	const resources = "  resources: [{name: a.yaml, content: \"apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\n\"}]\n"
	const bundle = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: bb, namespace: fleet-default}\nspec:\n" + resources
	const selectsAll = `unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`
	const clusters = "apiVersion: v1\nkind: List\nitems:\n" +
		"- apiVersion: fleet.cattle.io/v1alpha1\n  kind: Cluster\n  metadata: {name: c1, namespace: fleet-default, labels: {env: dev}}\n" +
		"- apiVersion: fleet.cattle.io/v1alpha1\n  kind: ClusterGroup\n  metadata: {name: g, namespace: fleet-default}\n  spec: {selector: {env: prod}}\n"
	files := map[string]string{
		"selector.yaml": "# one\n---\n" + bundle + "  targets:\n  - clusterSelector: {env: prod}\n",
		"typo.yaml":     bundle + "  defaultNamespce: zz\n",
		"stream.json": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}} {"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",` +
			` "metadata": {"name": "bb"}, "spec": {"targets": [{"clusterSelector": {"env": "prod"}}]}}`,
		"server.yaml": strings.ReplaceAll(bundle, "{name: bb, namespace: fleet-default}",
			"{name: bb, namespace: fleet-default, uid: 4b1c, managedFields: [{manager: m, fieldsV1: {\"f:spec\": {\"f:later\": {}}}}]}") +
			"  later: x\n  targets: [{clusterName: c1}]\nstatus: {later: x, display: {later: y}}\n",
		"copied.yaml": strings.ReplaceAll(bundle, "{name: bb,", "{name: bb, uid: 4b1c,") + "  targets:\n  - clusterSelector: {env: prod}\n",
		"good.yaml":   bundle + "  defaultNamespace: zz\n  targets:\n  - clusterSelector: {matchLabels: {env: prod}}\n",
		"groups.yaml": clusters,
		"tg1.yaml":    "targets:\n- clusterSelector: {env: prod}\n",
		"tg2.yaml":    "target:\n- clusterGroup: prodd\n",
		"types.yaml":  strings.Replace(bundle, "{name: bb,", "{name: bb, labels: {country: no, zone: 1},", 1) + "  targets:\n  - clusterSelector: {matchLabels: {env: on}}\n",
		"clusters.yaml": "apiVersion: v1\nkind: List\nitems:\n" +
			"- apiVersion: fleet.cattle.io/v1alpha1\n  kind: Cluster\n  metadata: {name: c1, namespace: fleet-default, labels: {country: no}}\n",
		"secret.yaml": bundle + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: 4711}\n",
		"cm/cm.yaml":  "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		why   string
		args  string
		code  int
		notes []string
	}{
		"Apply":        {args: "apply -o - -f selector.yaml", code: 4, notes: []string{"selector.yaml:9:23: error: " + selectsAll}},
		"ApplyOptions": {args: "apply -o - -b copied.yaml", code: 4, notes: []string{"copied.yaml:7:23: error: " + selectsAll}},
		"Test":         {args: "test -b selector.yaml -l env=dev", code: 4, notes: []string{"selector.yaml:9:23: error: " + selectsAll}},
		"Target":       {args: "target -b selector.yaml --cluster-file groups.yaml", code: 4, notes: []string{"selector.yaml:9:23: error: " + selectsAll}},
		"Misspelt": {
			args: "apply -o - -f typo.yaml", code: 4,
			notes: []string{`typo.yaml:6:3: error: unknown key "defaultNamespce" [unknown-key]`, `    did you mean "defaultNamespace"?`},
		},
		"JSONStream": {
			why: "objects in one document of YAML have no place of their own", args: "test -b stream.json", code: 4, notes: []string{"stream.json:1:1: error: " + selectsAll},
		},
		"FromServer": {
			why: "a newer API server knows more", args: "apply -o - -f server.yaml", notes: []string{`server.yaml:6:3: warning: unknown key "later" is ignored [unknown-key]`},
		},
		"CopiedAndEdited": {why: "no server keeps such a selector", args: "apply -o - -f copied.yaml", code: 4, notes: []string{"copied.yaml:7:23: error: " + selectsAll}},
		"ClusterFile": {
			args: "target -b good.yaml --cluster-file groups.yaml", code: 4,
			notes: []string{`groups.yaml:10:21: error: unknown key "env" in selector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"LintClusterFile": {args: "lint --cluster-file groups.yaml cm", code: 4, notes: []string{`groups.yaml:10:21: error: unknown key "env" in selector`}},
		"DeployInput":     {args: "deploy -d -i groups.yaml", code: 4, notes: []string{`groups.yaml:10:21: error: unknown key "env" in selector`}},
		"TargetsFile":     {args: "apply -o - --targets-file tg1.yaml hand cm", code: 4, notes: []string{"tg1.yaml:2:21: error: " + selectsAll}},
		"TargetsFileKey": {
			args: "apply -o - --targets-file tg2.yaml hand cm", code: 4,
			notes: []string{`tg2.yaml:1:1: error: unknown key "target" [unknown-key]`, `    did you mean "targets"?`},
		},
		"Type": {
			args: "apply -o - -f types.yaml", code: 4,
			notes: []string{
				"types.yaml:3:40: error: metadata.labels.country must be a text, not no [type]\n    put it in quotes\n",
				"types.yaml:3:50: error: metadata.labels.zone must be a text, not 1 [type]",
				"types.yaml:7:42: error: spec.targets[0].clusterSelector.matchLabels.env must be a text, not on [type]",
			},
		},
		"TypeOfTest": {args: "test -b types.yaml -l env=dev", code: 4, notes: []string{"types.yaml:3:40: error: metadata.labels.country must be a text"}},
		"TypeOfClusterFile": {
			args: "target -b good.yaml --cluster-file clusters.yaml", code: 4,
			notes: []string{"clusters.yaml:6:68: error: metadata.labels.country must be a text, not no [type]"},
		},
		"TypeOfSecret": {
			why: "its values are secret", args: "apply -o - -f secret.yaml", code: 4,
			notes: []string{"secret.yaml:10:24: error: stringData.password must be a text, not a single value [type]"},
		},
		"Known": {args: "apply -o - -f good.yaml"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, notes, err := alone(t, dir, strings.Fields(c.args)...)
			if got := cli.ExitCode(err, false); got != c.code || (c.code != 0) == (out != "") {
				t.Errorf("%s: want exit code %d, and output with 0 alone, got %d: %v\n%s%s", c.why, c.code, got, err, notes, out)
			}
			for _, want := range c.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("%s: want %q in\n%s", c.why, want, notes)
				}
			}
			if len(c.notes) == 0 && notes != "" {
				t.Errorf("want no words, got\n%s", notes)
			}
		})
	}
}
