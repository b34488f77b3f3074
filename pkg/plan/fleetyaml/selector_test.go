package fleetyaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeysOfSelectors(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		want []string
	}{
		"MatchLabelsForgotten": {
			why:  "an empty selector is left, which matches everything",
			text: "targetCustomizations:\n- clusterSelector: {env: prod}\n  doNotDeploy: true\n",
			want: []string{`f:2:21: error: unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"Everywhere": {
			text: "targets:\n- clusterGroupSelector: {a: b}\noverrideTargets:\n- clusterSelector:\n    env: prod\n    tier: {a: b}\n" +
				"rolloutStrategy:\n  partitions:\n  - ClusterSelector: {matchLabel: {a: b}}\ndependsOn:\n- selector: {app: x}\n",
			want: []string{
				`f:2:26: error: unknown key "a" in clusterGroupSelector: it means every cluster group; did you mean matchLabels: {a: b}? [unknown-key]`,
				`f:5:5: error: unknown key "env" in clusterSelector: it means every cluster; did you mean matchLabels: {env: prod}? [unknown-key]`,
				`f:6:5: error: unknown key "tier" in clusterSelector: it means every cluster; want matchLabels or matchExpressions [unknown-key]`,
				`f:9:23: error: unknown key "matchLabel" in ClusterSelector: it means every cluster; did you mean matchLabels? [unknown-key]`,
				`f:11:14: error: unknown key "app" in selector: it means every bundle; did you mean matchLabels: {app: x}? [unknown-key]`,
			},
		},
		"BesideOthers": {
			why:  "the selector matches more than is written",
			text: "targetCustomizations:\n- clusterSelector:\n    matchLabels: {a: b}\n    env: prod\n",
			want: []string{`f:4:5: error: unknown key "env" in clusterSelector is ignored; did you mean matchLabels: {env: prod}? [unknown-key]`},
		},
		"Known": {text: "targetCustomizations:\n- clusterSelector: {}\n- clusterSelector: {matchlabels: {a: b}}\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, found := Parse("f", []byte(c.text))
			if diff := cmp.Diff(c.want, texts(found)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// An operator that does not exist is named with those that do.
func TestOperatorsOfSelectors(t *testing.T) {
	cases := map[string]struct{ operator, want string }{
		"OtherCase": {"in", `"in" is not a valid label selector operator; did you mean In?`},
		"Near":      {"NotIns", `"NotIns" is not a valid label selector operator; did you mean NotIn?`},
		"Far":       {"Equals", `"Equals" is not a valid label selector operator; want In, NotIn, Exists or DoesNotExist`},
		"None":      {`""`, `"" is not a valid label selector operator; want In, NotIn, Exists or DoesNotExist`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, found := Parse("f", []byte("targetCustomizations:\n- clusterSelector:\n    matchExpressions:\n    - operator: "+c.operator+"\n      key: env\n"))
			want := []string{"f:4:17: error: clusterSelector cannot be used: " + c.want + " [value]"}
			if diff := cmp.Diff(want, texts(found)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A partition without criteria has no member: it is not the canary that it looks
// like.
func TestPartitionsWithoutCriteria(t *testing.T) {
	text := "rolloutStrategy:\n  partitions:\n  - name: canary\n    maxUnavailable: 1\n  - {}\n  - name: rest\n    clusterSelector: {}\n"
	want := []string{
		`f:3:5: warning: partition "canary" selects no cluster [unreachable] (give it a clusterSelector, clusterName or clusterGroup)`,
		`f:5:5: warning: partition 2 selects no cluster [unreachable] (give it a clusterSelector, clusterName or clusterGroup)`,
	}
	_, found := Parse("f", []byte(text))
	if diff := cmp.Diff(want, texts(found)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A partition without a limit holds back nothing, unless the next one stands still.
func TestPartitionsWithoutLimit(t *testing.T) {
	const hint = "(without one all of its clusters may be unavailable; write 1, or a percentage such as 10%)"
	cases := map[string]struct {
		text string
		want []string
	}{
		"Canary": {
			text: "  partitions: [{name: canary, clusterGroup: a}, {clusterSelector: {}}, {name: rest, clusterSelector: {}}]\n",
			want: []string{
				`f:2:16: warning: partition "canary" has no maxUnavailable: the partitions after it do not wait for it [value] ` + hint,
				`f:2:49: warning: partition 2 has no maxUnavailable: the partitions after it do not wait for it [value] ` + hint,
			},
		},
		"Limit":      {text: "  partitions: [{name: canary, clusterGroup: a, maxUnavailable: 1}, {name: rest, clusterSelector: {}}]\n"},
		"LimitOfAll": {text: "  maxUnavailable: 1\n  partitions: [{name: canary, clusterGroup: a}, {name: rest, clusterSelector: {}}]\n"},
		"OneCluster": {text: "  partitions: [{name: canary, clusterName: a}, {name: rest, clusterSelector: {}}]\n"},
		"OnlyOne":    {text: "  partitions: [{name: all, clusterSelector: {}}]\n"},
		"WaitsForCommit": {
			text: "  partitions: [{name: canary, clusterGroup: a}, {name: rest, clusterSelector: {}, maxUnavailable: 0}]\n",
			want: []string{"f:2:99: warning: maxUnavailable 0 freezes updates: no cluster on which the bundle is Ready gets a new version [frozen] (" +
				"write 1 for one cluster at a time, or a percentage such as 10%; paused: true holds updates back on purpose)"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, found := Parse("f", []byte("rolloutStrategy:\n"+c.text))
			if diff := cmp.Diff(c.want, texts(found)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestKeysInTheWrongPlace(t *testing.T) {
	text := "values: {a: b}\ndoNotDeploy: true\noverrideTargets:\n- clusterName: a\n  doNotDeploy: true\ntargetCustomizations:\n- values: {a: b}\n"
	want := []string{
		`f:1:1: warning: unknown key "values" is ignored [unknown-key] (it belongs under helm: helm.values)`,
		`f:2:1: warning: unknown key "doNotDeploy" is ignored [unknown-key] (it belongs in an entry of targetCustomizations)`,
		`f:5:3: warning: unknown key "doNotDeploy" is ignored [unknown-key] (it belongs in an entry of targetCustomizations)`,
		`f:7:3: warning: unknown key "values" is ignored [unknown-key] (it belongs under helm: helm.values)`,
	}
	_, found := Parse("f", []byte(text))
	if diff := cmp.Diff(want, texts(found)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The YAML package takes a key below helm for one of the top; nothing of it is left.
func TestKeysOfTheTopAreIgnoredElsewhere(t *testing.T) {
	const top = "it belongs at the top of fleet.yaml"
	const entry = "it belongs in the entry of targetCustomizations itself"
	const strategy = "rolloutStrategy: {maxUnavailable: 25%, maxNew: 3, autoPartitionThreshold: 1, autoPartitionSize: 1, " +
		"maxUnavailablePartitions: 1, partitions: [{name: a, clusterName: a}]}"
	cases := map[string]struct{ text, key, at, hint, same string }{
		"Helm":            {text: "helm:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"OtherCase":       {text: "helm:\n  RolloutStrategy: {maxNew: 3}", key: "RolloutStrategy", at: "2:3"},
		"Kustomize":       {text: "kustomize:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"YAML":            {text: "yaml:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"Diff":            {text: "diff:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"Ignore":          {text: "ignore:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"CorrectDrift":    {text: "correctDrift:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"RolloutStrategy": {text: "rolloutStrategy:\n  " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"Customization":   {text: "targetCustomizations:\n- " + strategy, key: "rolloutStrategy", at: "2:3", hint: top},
		"CustomizedHelm":  {text: "targetCustomizations:\n- helm:\n    correctDrift: {enabled: true}", key: "correctDrift", at: "3:5", hint: entry, same: "targetCustomizations: [{helm: {}}]"},
		"Namespace":       {text: "helm:\n  namespace: a", key: "namespace", at: "2:3", hint: top},
		"Default":         {text: "helm:\n  defaultNamespace: a", key: "defaultNamespace", at: "2:3", hint: top},
		"Customizations":  {text: "helm:\n  targetCustomizations: []", key: "targetCustomizations", at: "2:3", hint: top},
		"Drift":           {text: "helm:\n  correctDrift: {enabled: true}", key: "correctDrift", at: "2:3", hint: top},
		"Paused":          {text: "helm:\n  paused: true", key: "paused", at: "2:3", hint: top},
		"Name":            {text: "helm:\n  name: a", key: "name", at: "2:3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := fmt.Sprintf("f:%s: warning: unknown key %q is ignored [unknown-key]", c.at, c.key)
			if c.hint != "" {
				want += " (" + c.hint + ")"
			}
			got, found := Parse("f", []byte(c.text+"\n"))
			if diff := cmp.Diff([]string{want}, texts(found)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			same := c.same
			if same == "" {
				parent, _, _ := strings.Cut(c.text, ":")
				same = emptied[parent]
			}
			empty, _ := Parse("f", []byte(same))
			if diff := cmp.Diff(empty.Spec, got.Spec); diff != "" {
				t.Errorf("the key is not ignored: -want +got\n%s", diff)
			}
		})
	}
}

// emptied are files with nothing but a key of the top.
var emptied = map[string]string{
	"helm": "helm: {}", "kustomize": "kustomize: {}", "yaml": "yaml: {}", "diff": "diff: {}", "ignore": "ignore: {}", "correctDrift": "correctDrift: {}",
	"rolloutStrategy": "rolloutStrategy: {}", "targetCustomizations": "targetCustomizations: [{}]",
}
