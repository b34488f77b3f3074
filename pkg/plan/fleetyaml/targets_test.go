package fleetyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A file of targets has nothing but targets: what nothing reads may decide on which
// clusters a bundle is.
func TestTargetsFile(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		want []string
	}{
		"MatchLabelsForgotten": {
			text: "targets:\n- clusterSelector: {env: prod}\n",
			want: []string{`f:2:21: error: unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"Restrictions": {
			text: "targetRestrictions:\n- clusterSelector: {env: prod}\n",
			want: []string{`f:2:21: error: unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"Operator": {
			text: "targets:\n- clusterSelector:\n    matchExpressions:\n    - {key: env, operator: Inn, values: [x]}\n",
			want: []string{`f:4:28: error: clusterSelector cannot be used: "Inn" is not a valid label selector operator; did you mean In? [value]`},
		},
		"OperatorOfRestriction": {
			text: "targetRestrictions:\n- clusterGroupSelector: {matchExpressions: [{key: env, operator: is}]}\n",
			want: []string{`f:2:66: error: clusterGroupSelector cannot be used: "is" is not a valid label selector operator; want In, NotIn, Exists or DoesNotExist [value]`},
		},
		"BooleanAsText": {
			text: "targets:\n- clusterSelector: {matchLabels: {country: no}}\ntargetRestrictions:\n- clusterName: 1.10\n",
			want: []string{
				"f:2:44: error: targets[0].clusterSelector.matchLabels.country must be a text, not no [type] (put it in quotes)",
				"f:4:16: error: targetRestrictions[0].clusterName must be a text, not 1.10 [type] (put it in quotes)",
			},
		},
		"Misspelt": {
			why: "nothing of the file would be used", text: "target:\n- clusterGroup: prod\n",
			want: []string{`f:1:1: error: unknown key "target" [unknown-key] (did you mean "targets"?)`},
		},
		"Other":  {text: "foo: bar\n", want: []string{`f:1:1: error: unknown key "foo" [unknown-key]`}},
		"InItem": {text: "targets:\n- clusterNam: c1\n", want: []string{`f:2:3: error: unknown key "clusterNam" [unknown-key] (did you mean "clusterName"?)`}},
		"WithoutTargets": {
			text: "clusterGroup: prod\n", want: []string{`f:1:1: error: unknown key "clusterGroup" [unknown-key] (it belongs in an entry of targets)`},
		},
		"OfFleetYAML": {
			text: "targets: []\ndefaultNamespace: x\n",
			want: []string{`f:2:1: error: unknown key "defaultNamespace" [unknown-key] (it belongs at the top of fleet.yaml)`},
		},
		"Type":  {text: "targets: {clusterName: c1}\n", want: []string{"f:1:10: error: targets must be a list, not a mapping [type]"}},
		"List":  {text: "- clusterName: c1\n", want: []string{"f:1:1: error: the file must be a mapping, not a list [type]"}},
		"Empty": {text: "# none\n"},
		"More": {
			text: "targets: []\n---\ntargets: []\n", want: []string{"f:3:1: warning: only the first document of the file is read [unknown-key]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, found := ParseTargets("f", []byte(c.text))
			if diff := cmp.Diff(c.want, texts(found)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestTargetsFileIsRead(t *testing.T) {
	text := "Targets:\n- clusterName: 5\n  clusterSelector: {matchLabels: {a: b}}\n  helm: {releaseName: x}\ntargetRestrictions:\n- clusterGroup: g\n"
	got, found := ParseTargets("f", []byte(text))
	if len(found) > 0 {
		t.Fatalf("want no findings, got %v", texts(found))
	}
	target := fleet.BundleTarget{ClusterName: "5", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	target.Helm = &fleet.HelmOptions{ReleaseName: "x"}
	want := Targets{Targets: []fleet.BundleTarget{target}, TargetRestrictions: []fleet.BundleTargetRestriction{{ClusterGroup: "g"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
