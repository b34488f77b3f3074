package fleetyaml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// Keys of an object that its type does not have are found where they stand. Outside
// of label selectors their severity is what the caller says.
func TestUnknownKeys(t *testing.T) {
	const head = "kind: Bundle\nmetadata: {name: b, managedFields: [{manager: m, fieldsV1: {\"f:spec\": {}}}]}\n"
	cases := map[string]struct {
		why      string
		text     string
		severity finding.Severity
		want     []string
	}{
		"MatchLabelsForgotten": {
			text: head + "spec:\n  targets:\n  - clusterSelector: {env: prod}\n", severity: finding.Warning,
			want: []string{`f:5:23: error: unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"Misspelt": {
			text: head + "spec:\n  defaultNamespce: x\n", severity: finding.Error,
			want: []string{`f:4:3: error: unknown key "defaultNamespce" [unknown-key] (did you mean "defaultNamespace"?)`},
		},
		"FromServer": {
			text: head + "spec:\n  later: x\n", severity: finding.Warning,
			want: []string{`f:4:3: warning: unknown key "later" is ignored [unknown-key]`},
		},
		"OtherCase": {
			why:  "unlike in fleet.yaml, the case of keys counts",
			text: head + "spec:\n  DefaultNamespace: x\n  targets:\n  - clusterSelector: {matchlabels: {a: b}}\n", severity: finding.Error,
			want: []string{
				`f:4:3: error: unknown key "DefaultNamespace" [unknown-key] (did you mean "defaultNamespace"?)`,
				`f:6:23: error: unknown key "matchlabels" in clusterSelector: it means every cluster; did you mean matchLabels? [unknown-key]`,
			},
		},
		"Elsewhere": {
			text: head + "targets: []\nspec:\n  releaseName: x\n  targets:\n  - chart: x\n  matchLabels: {a: b}\n", severity: finding.Error,
			want: []string{
				`f:3:1: error: unknown key "targets" [unknown-key] (it belongs below spec)`,
				`f:5:3: error: unknown key "releaseName" [unknown-key] (it belongs under helm: helm.releaseName)`,
				`f:7:5: error: unknown key "chart" [unknown-key] (it belongs under helm: helm.chart)`,
				`f:8:3: error: unknown key "matchLabels" [unknown-key]`,
			},
		},
		"Status": {why: "users do not write it", text: head + "status: {later: x}\n", severity: finding.Error},
		"Values": {why: "what is below helm.values may be anything", text: head + "spec: {helm: {values: {a: {b: c}}}}\n", severity: finding.Error},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := UnknownKeys[fleet.Bundle]("f", position.Root([]byte(c.text)), c.severity)
			if diff := cmp.Diff(c.want, texts(found)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// Values of an object that its type does not take are found where they stand.
func TestWrongTypes(t *testing.T) {
	const text = "kind: Bundle\nmetadata: {name: b, labels: {country: no, zone: \"1\"}, managedFields: [{manager: m, fieldsV1: {\"f:spec\": {}}}]}\n" +
		"spec:\n  later: x\n  paused: maybe\n  targets: {clusterName: c1}\nstatus: {conditions: 5}\n"
	want := []string{
		"f:2:39: error: metadata.labels.country must be a text, not no [type] (put it in quotes)",
		"f:5:11: error: spec.paused must be true or false, not maybe [type]",
		"f:6:12: error: spec.targets must be a list, not a mapping [type]",
	}
	if diff := cmp.Diff(want, texts(WrongTypes[fleet.Bundle]("f", position.Root([]byte(text))))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// What a label selector selects without its keys depends on where it stands.
func TestSelected(t *testing.T) {
	cases := map[string]struct {
		found []finding.Finding
		want  string
	}{
		"ClusterGroup": {UnknownKeys[fleet.ClusterGroup]("f", position.Root([]byte("spec: {selector: {a: b}}")), finding.Error), "every cluster;"},
		"Mapping": {
			UnknownKeys[fleet.BundleNamespaceMapping]("f", position.Root([]byte("bundleSelector: {a: b}")), finding.Error), "every bundle;",
		},
		"MappingNamespaces": {
			UnknownKeys[fleet.BundleNamespaceMapping]("f", position.Root([]byte("namespaceSelector: {a: b}")), finding.Error), "every namespace;",
		},
		"DependsOn": {UnknownKeys[fleet.Bundle]("f", position.Root([]byte("spec: {dependsOn: [{selector: {a: b}}]}")), finding.Error), "every bundle;"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if len(c.found) != 1 || !strings.Contains(c.found[0].Message, c.want) {
				t.Errorf("want one error with %q, got %v", c.want, c.found)
			}
		})
	}
}
