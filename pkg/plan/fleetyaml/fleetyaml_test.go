package fleetyaml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func TestParse(t *testing.T) {
	text := `name: web
labels: {team: a}
annotations:
  note: hello
namespace: web
helm:
  releaseName: web
  values:
    replicas: 2
  valuesFiles: [values-prod.yaml]
targets:
- clusterName: c9
targetCustomizations:
- name: prod
  clusterSelector:
    matchLabels: {env: prod}
  helm:
    values: {replicas: 3}
- clusterGroup: eu
overrideTargets: []
`
	f, found := Parse("web/fleet.yaml", []byte(text))
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := File{
		Path: "web/fleet.yaml", Name: "web",
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "hello"},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				TargetNamespace: "web",
				Helm: &fleet.HelmOptions{
					ReleaseName: "web", ValuesFiles: []string{"values-prod.yaml"},
					Values: &fleet.GenericMap{Data: map[string]any{"replicas": 2.0}},
				},
			},
			Targets: []fleet.BundleTarget{
				{Name: "target000", ClusterName: "c9"},
				{
					Name: "prod", ClusterSelector: selector("env", "prod"),
					BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"replicas": 3.0}}}},
				},
				{Name: "target002", ClusterGroup: "eu"},
			},
		},
		OverrideTargets: []fleet.GitTarget{}, Overrides: true,
	}
	if diff := cmp.Diff(want, f, cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".root" || name == ".customized" || name == ".decoded"
	}, cmp.Ignore()), cmp.AllowUnexported(File{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if line, column := f.Position("helm", "releaseName"); line != 7 || column != 16 {
		t.Errorf("want helm.releaseName at 7:16, got %d:%d", line, column)
	}
	if line, _ := f.AtTarget(1, "helm", "values"); line != 18 {
		t.Errorf("want the values of customization prod in line 18, got %d", line)
	}
	if line, _ := f.AtTarget(2, "helm", "chart"); line != 19 {
		t.Errorf("want the nearest place that exists, line 19, got %d", line)
	}
}

func TestFindings(t *testing.T) {
	cases := map[string]struct {
		why  string
		text string
		want []string
	}{
		"Empty":       {text: ""},
		"Comment":     {text: "# nothing yet\n"},
		"EmptyObject": {text: "{}"},
		"Null":        {text: "null"},
		"TypingError": {
			why:  "the reference ignores it as well, but says nothing",
			text: "namespace: a\ntargetCustomisations: []\n",
			want: []string{`f:2:1: warning: unknown key "targetCustomisations" is ignored [unknown-key] (did you mean "targetCustomizations"?)`},
		},
		"NestedTypingError": {
			text: "targetCustomizations:\n- clusterSelecter: {}\n  helm:\n    value: {}\n",
			want: []string{
				`f:2:3: warning: unknown key "clusterSelecter" is ignored [unknown-key] (did you mean "clusterSelector"?)`,
				`f:4:5: warning: unknown key "value" is ignored [unknown-key] (did you mean "values"?)`,
			},
		},
		"OtherCase": {why: "the decoder takes it", text: "defaultnamespace: a\n"},
		"FreeForm":  {why: "values belong to the chart", text: "helm:\n  values:\n    anything: {goes: [here]}\n"},
		"Syntax": {
			text: "namespace: a\nhelm:\n\tvalues: {}\n",
			want: []string{"f:3:1: error: YAML: a tab where spaces indent [yaml]"},
		},
		"WrongKind": {
			text: "helm: chart\ntargetCustomizations: {}\nlabels: []\n",
			want: []string{
				"f:1:7: error: helm must be a mapping, not a single value [type]",
				"f:2:23: error: targetCustomizations must be a list, not a mapping [type]",
				"f:3:9: error: labels must be a mapping, not a list [type]",
			},
		},
		"WrongScalar": {
			text: "paused: maybe\nhelm:\n  timeoutSeconds: 5m\n",
			want: []string{
				`f:1:9: error: paused must be true or false, not maybe [type]`,
				`f:3:19: error: helm.timeoutSeconds must be a whole number, not 5m [type]`,
			},
		},
		"QuotedScalar": {
			why:  "the words alone would be right",
			text: "paused: \"true\"\nhelm:\n  timeoutSeconds: '5m'\n  takeOwnership: 'yes'\n",
			want: []string{
				`f:1:9: error: paused must be true or false, not the text "true" [type] (take off the quotes)`,
				`f:3:19: error: helm.timeoutSeconds must be a whole number, not the text "5m" [type]`,
				`f:4:18: error: helm.takeOwnership must be true or false, not the text "yes" [type] (take off the quotes)`,
			},
		},
		"OldYAML": {why: "yes is true for the parser of the reference", text: "paused: yes\n"},
		"NumberAsText": {
			why:  "the reference reads the file twice, and the second time no number is a text",
			text: "namespace: 123\nlabels: {a: 1, name: 5, b: yes}\nname: 7\n",
			want: []string{
				"f:1:12: error: namespace must be a text, not 123 [type] (put it in quotes)",
				"f:2:13: error: labels.a must be a text, not 1 [type] (put it in quotes)",
				"f:2:28: error: labels.b must be a text, not yes [type] (put it in quotes)",
				"f:3:7: error: name must be a text, not 7 [type] (put it in quotes)",
			},
		},
		"CustomizationIsNotWhatIsWritten": {
			why: "the decoder makes other texts of them, which match no cluster or another one",
			text: `targetCustomizations:
- name: no
  clusterName: 1.10
  clusterGroup: on
  clusterSelector:
    matchLabels: {country: no, n: x, mode: 0755}
    matchExpressions: [{key: y, operator: In, values: [no, se, 1_0]}]
  clusterGroupSelector: {matchLabels: {1.0: x}}
  namespaceLabels: {a: off}
overrideTargets:
- clusterSelector: {matchLabels: {country: no}}
`,
			want: []string{
				"f:2:9: error: targetCustomizations[0].name must be a text, not no [type] (put it in quotes)",
				"f:3:16: error: targetCustomizations[0].clusterName must be a text, not 1.10 [type] (put it in quotes)",
				"f:4:17: error: targetCustomizations[0].clusterGroup must be a text, not on [type] (put it in quotes)",
				"f:6:28: error: targetCustomizations[0].clusterSelector.matchLabels.country must be a text, not no [type] (put it in quotes)",
				`f:6:32: error: targetCustomizations[0].clusterSelector.matchLabels: the key n counts as "false" [type] (put it in quotes)`,
				"f:6:44: error: targetCustomizations[0].clusterSelector.matchLabels.mode must be a text, not 0755 [type] (put it in quotes)",
				"f:7:30: error: targetCustomizations[0].clusterSelector.matchExpressions[0].key must be a text, not y [type] (put it in quotes)",
				"f:7:56: error: targetCustomizations[0].clusterSelector.matchExpressions[0].values[0] must be a text, not no [type] (put it in quotes)",
				"f:7:64: error: targetCustomizations[0].clusterSelector.matchExpressions[0].values[2] must be a text, not 1_0 [type] (put it in quotes)",
				`f:8:40: error: targetCustomizations[0].clusterGroupSelector.matchLabels: the key 1.0 counts as "1" [type] (put it in quotes)`,
				"f:9:24: error: targetCustomizations[0].namespaceLabels.a must be a text, not off [type] (put it in quotes)",
				"f:11:44: error: overrideTargets[0].clusterSelector.matchLabels.country must be a text, not no [type] (put it in quotes)",
			},
		},
		"CustomizationIsWhatIsWritten": {
			why: "the reference takes these, and changes nothing",
			text: `targetCustomizations:
- name: 5
  clusterName: true
  clusterSelector: {matchLabels: {zone: 1, "n": "no", v: 1.5, x: !!str no, 7: 'off', empty: }}
  clusterGroup: a

    b
imageScans:
- {name: 1.10, image: x, tagName: z}
`,
		},
		"KeyOfAPartitionsSelector": {
			text: "rolloutStrategy: {partitions: [{clusterSelector: {matchLabels: {n: x}}}]}\n",
			want: []string{`f:1:65: error: rolloutStrategy.partitions[0].clusterSelector.matchLabels: the key n counts as "false" [type] (put it in quotes)`},
		},
		"Values": {
			text: "helm:\n  values: [a]\n",
			want: []string{"f:2:11: error: helm.values must be a mapping, not a list [type]"},
		},
		"ValuesAreNotRepeated": {
			why:  "they may be secret",
			text: "helm:\n  values: canary\n  templateValues: {a: 5}\n",
			want: []string{
				"f:2:11: error: helm.values must be a mapping, not a single value [type]",
				"f:3:23: error: helm.templateValues.a must be a text, not a single value [type] (put it in quotes)",
			},
		},
		"Reserved": {
			why:  "else a repository could take over the bundle of another",
			text: "labels:\n  fleet.cattle.io/repo-name: other\n  field.cattle.io/x: ok\nannotations:\n  objectset.rio.cattle.io/id: x\n",
			want: []string{
				`f:2:3: error: label key "fleet.cattle.io/repo-name" is reserved for Fleet [reserved]`,
				`f:5:3: error: annotation key "objectset.rio.cattle.io/id" is reserved for Fleet [reserved]`,
			},
		},
		"Internal": {
			text: "contentsId: x\nresources: []\n",
			want: []string{
				`f:1:13: warning: key "contentsId" is set by Fleet itself; what stands here is ignored [unknown-key]`,
				`f:2:12: warning: key "resources" is set by Fleet itself; what stands here is ignored [unknown-key]`,
			},
		},
		"Twice": {
			text: "namespace: a\nnamespace: b\n",
			want: []string{`f:2:1: warning: key "namespace" stands here again (first in line 1); the last one counts [duplicate-key]`},
		},
		"SecondDocument": {
			text: "namespace: a\n---\nnamespace: b\n",
			want: []string{"f:3:1: warning: only the first document of the file is read [unknown-key]"},
		},
		"ImageScans": {
			why:  "whether scanning is on is not decided here",
			text: "imageScans:\n- image: x\n  tagName: z\n  interval: 5m\n- tagName: b\n- image: x\n  interval: soon\n",
			want: []string{"f:7:13: error: imageScans[2].interval must be a duration such as 90s or 15m, not soon [type]"},
		},
		"ImageScanWithoutImage": {
			text: "imageScans:\n- tagName: b\n",
			want: []string{"f:2:3: warning: imageScans[0] has no image and is skipped [value]"},
		},
		"ShortForms": {
			why:  "what the one value means is certain",
			text: "dependsOn: [db, 7]\ncorrectDrift: true\n",
			want: []string{
				"f:1:13: error: dependsOn[0] must be a mapping, not a single value [type] (write {name: db})",
				"f:1:17: error: dependsOn[1] must be a mapping, not a single value [type] (write {name: 7})",
				"f:2:15: error: correctDrift must be a mapping, not a single value [type] (write {enabled: true})",
			},
		},
		"ShortFormOfAList": {
			text: "dependsOn: db\n",
			want: []string{"f:1:12: error: dependsOn must be a list, not a single value [type] (write [{name: db}])"},
		},
		"TargetNamespace": {
			why:  "the key of a GitRepo, and of Bundles in another sense",
			text: "targetNamespace: a\ntargetCustomizations:\n- clusterName: b\n  targetNamespace: a\n",
			want: []string{
				`f:1:1: warning: unknown key "targetNamespace" is ignored [unknown-key] (` + hintNamespace + `)`,
				`f:4:3: warning: unknown key "targetNamespace" is ignored [unknown-key] (` + hintNamespace + `)`,
			},
		},
		"NegativeNumbers": {
			why:  "in a customization a negative timeout takes that of the bundle away",
			text: "helm: {timeoutSeconds: -5, maxHistory: -1}\ntargetCustomizations:\n- clusterName: b\n  helm: {timeoutSeconds: -1}\n",
			want: []string{
				"f:1:24: warning: helm.timeoutSeconds -5 counts as 0: Helm does not wait [value]",
				"f:1:40: warning: helm.maxHistory -1 counts as 2 [value]",
			},
		},
		"WaitForJobs": {
			text: "helm: {waitForJobs: true}\n",
			want: []string{"f:1:21: warning: helm.waitForJobs has no effect: Helm waits for nothing [value] (set helm.timeoutSeconds)"},
		},
		"WaitForJobsOfACustomization": {
			text: "helm: {chart: a}\ntargetCustomizations:\n- clusterName: b\n  helm: {waitForJobs: true}\n",
			want: []string{"f:4:23: warning: helm.waitForJobs has no effect: Helm waits for nothing [value] (set helm.timeoutSeconds)"},
		},
		"WaitForJobsWithATimeout": {
			why:  "for some clusters, at least",
			text: "helm: {waitForJobs: true}\ntargetCustomizations:\n- clusterName: b\n  helm: {timeoutSeconds: 60}\n",
		},
		"WaitForJobsOfAnAtomicRelease": {
			why:  "atomic waits, too",
			text: "helm: {atomic: true}\ntargetCustomizations:\n- clusterName: b\n  helm: {waitForJobs: true}\n",
		},
		"DependsOn": {
			text: "dependsOn:\n- acceptedStates: [Ready, Fine]\n",
			want: []string{
				"f:2:3: error: dependsOn[0] needs a name or a selector [value]",
				`f:2:27: error: dependsOn[0].acceptedStates: "Fine" is not a state; want one of ErrApplied, WaitApplied, Modified, OutOfSync, Pending, NotReady, Ready [value]`,
			},
		},
		"ReleaseName": {
			text: "helm: {releaseName: A}\ntargetCustomizations:\n- helm: {releaseName: b_}\n- helm: {releaseName: -c}\n- helm: {releaseName: d-}\n- helm: {releaseName: e.-f}\n",
			want: []string{
				`f:1:21: error: helm.releaseName "A" is not possible: want at most 53 lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`,
				`f:3:23: error: helm.releaseName "b_" is not possible: want at most 53 lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`,
				`f:4:23: error: helm.releaseName "-c" is not possible: want at most 53 lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`,
				`f:5:23: error: helm.releaseName "d-" is not possible: want at most 53 lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`,
				`f:6:23: error: helm.releaseName "e.-f" is not possible: want at most 53 lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`,
			},
		},
		"OtherCaseIsAsConfidential": {
			text: "Helm:\n  Values: canary\n  TemplateValues: {a: 5}\n",
			want: []string{
				"f:2:11: error: Helm.Values must be a mapping, not a single value [type]",
				"f:3:23: error: Helm.TemplateValues.a must be a text, not a single value [type] (put it in quotes)",
			},
		},
		"KeyThatIsNoText": {
			why:  "the parser would repeat what stands there",
			text: "helm:\n  values: {? [canary] : canary, ~: canary}\n",
			want: []string{
				"f:2:14: error: a key must be a single text or number [type]",
				"f:2:33: error: a key must be a single text or number [type]",
			},
		},
		"Infinite": {
			text: "helm:\n  values: {a: [.inf]}\n",
			want: []string{"f:2:16: error: helm.values.a[0] must not be infinite or no number at all [type]"},
		},
		"FirstOfTwo": {
			why:  "what does not count is not judged",
			text: "helm: 5\nhelm: {}\n",
			want: []string{`f:2:1: warning: key "helm" stands here again (first in line 1); the last one counts [duplicate-key]`},
		},
		"Merge": {
			why:  "a merge counts from where it stands, as in YAML 1.1, and its keys are judged",
			text: "x: &x {chart: 5, repo: a}\nhelm:\n  chart: b\n  <<: *x\n",
			want: []string{
				`f:1:1: warning: unknown key "x" is ignored [unknown-key]`,
				"f:1:15: error: helm.chart must be a text, not 5 [type] (put it in quotes)",
			},
		},
		"ReservedByMerge": {
			text: "labels:\n  <<: {fleet.cattle.io/repo-name: other}\n",
			want: []string{`f:2:8: error: label key "fleet.cattle.io/repo-name" is reserved for Fleet [reserved]`},
		},
		"ReservedByAnotherCase": {
			why:  "the decoder puts both into one map",
			text: "labels: {a: b}\nLabels: {fleet.cattle.io/repo-name: other}\n",
			want: []string{`f:1:9: error: label key "fleet.cattle.io/repo-name" is reserved for Fleet [reserved]`},
		},
		"ReservedTwice": {
			text: "labels: {a: b}\nlabels: {fleet.cattle.io/repo-name: other}\n",
			want: []string{
				`f:2:1: warning: key "labels" stands here again (first in line 1); the last one counts [duplicate-key]`,
				`f:2:10: error: label key "fleet.cattle.io/repo-name" is reserved for Fleet [reserved]`,
			},
		},
		"Selectors": {
			why: "one of them stops the whole bundle",
			text: `targetCustomizations:
- clusterSelector:
    matchExpressions: [{key: env, operator: is}]
- clusterGroupSelector:
    matchLabels: {"a b": c}
overrideTargets:
- clusterSelector:
    matchExpressions: [{key: env, operator: In}]
dependsOn:
- selector:
    matchLabels: {a: "?"}
rolloutStrategy:
  maxUnavailable: some
  partitions:
  - maxUnavailable: 10%
    clusterSelector:
      matchExpressions: [{operator: Exists}]
`,
			want: []string{
				`f:3:45: error: clusterSelector cannot be used: "is" is not a valid label selector operator; want In, NotIn, Exists or DoesNotExist [value]`,
				`f:5:26: error: clusterGroupSelector cannot be used: key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') [value]`,
				"f:8:24: error: clusterSelector cannot be used: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty [value]",
				`f:11:22: error: selector cannot be used: values[0][a]: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?') [value]`,
				`f:13:19: error: maxUnavailable: "some" is neither a number nor a percentage like "25%" [value]`,
				"f:17:26: error: clusterSelector cannot be used: key: Invalid value: \"\": name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') [value]",
			},
		},
		"OperatorOnItsOwnLine": {
			why:  "the place is that of the operator, not that of the selector",
			text: "targetCustomizations:\n- clusterSelector:\n    matchLabels: {a: b}\n    matchExpressions:\n    - key: env\n      operator: Equals\n      values: [a]\n",
			want: []string{`f:6:17: error: clusterSelector cannot be used: "Equals" is not a valid label selector operator; want In, NotIn, Exists or DoesNotExist [value]`},
		},
		"Frozen": {
			why:  "0 stops every update; 0% does not, whatever it looks like",
			text: "rolloutStrategy:\n  maxUnavailable: 0\n  maxUnavailablePartitions: 0\n  partitions:\n  - maxUnavailable: 0%\n    clusterName: a\n  - maxUnavailable: 1\n    clusterName: b\n",
			want: []string{
				"f:2:19: warning: maxUnavailable 0 freezes updates: no cluster on which the bundle is Ready gets a new version [frozen] (write 1 for one cluster at a time, or a percentage such as 10%; paused: true holds updates back on purpose)",
				"f:5:21: warning: maxUnavailable 0% counts as 1: a percentage is at least one cluster [frozen] (write 1 for one cluster at a time, or a percentage such as 10%; paused: true holds updates back on purpose)",
			},
		},
		"LimitsThatCountAsOthers": {
			why: "the value that is written is not the one that counts",
			text: "rolloutStrategy:\n  maxUnavailable: 150%\n  maxUnavailablePartitions: 200%\n  autoPartitionSize: 101%\n" +
				"  autoPartitionThreshold: -1\n  maxNew: 0\n  partitions:\n  - clusterName: a\n    maxUnavailable: 150%\n",
			want: []string{
				"f:2:19: warning: maxUnavailable 150% counts as 100%: all clusters may be unavailable at once [value]",
				"f:3:29: warning: maxUnavailablePartitions 200% counts as 100%: no partition waits for another one [value]",
				"f:4:22: warning: autoPartitionSize 101% counts as 100%: all clusters are in one partition [value]",
				"f:5:27: warning: autoPartitionThreshold -1 counts as 0: no partitions are made [value]",
				"f:6:11: warning: maxNew 0 holds back first installations: no cluster gets the bundle that does not have it [frozen] (leave it out for 50 at a time; paused: true holds everything back on purpose)",
				"f:9:21: warning: maxUnavailable 150% counts as 100%: all clusters may be unavailable at once [value]",
			},
		},
		"LimitsOfNothing": {
			why:  "a percentage is at least one, which is not what 0% looks like",
			text: "rolloutStrategy:\n  maxUnavailablePartitions: 0%\n  autoPartitionSize: -5%\n",
			want: []string{
				"f:2:29: warning: maxUnavailablePartitions 0% counts as 1: one partition is tolerated [value] (write 0 to tolerate no unfinished partition)",
				"f:3:22: warning: autoPartitionSize -5% counts as 1: each cluster is a partition of its own [value] (write 0 to make no partitions)",
			},
		},
		"LimitsBelowNothing": {
			text: "rolloutStrategy:\n  maxUnavailable: -1\n  maxUnavailablePartitions: -1\n  autoPartitionSize: -2\n  maxNew: -3\n",
			want: []string{
				"f:2:19: warning: maxUnavailable -1 freezes updates: no cluster on which the bundle is Ready gets a new version [frozen] (write 1 for one cluster at a time, or a percentage such as 10%; paused: true holds updates back on purpose)",
				"f:3:29: warning: maxUnavailablePartitions -1 counts as 0 [value]",
				"f:4:22: warning: autoPartitionSize -2 counts as 0 [value]",
				"f:5:11: warning: maxNew -3 holds back first installations: no cluster gets the bundle that does not have it [frozen] (leave it out for 50 at a time; paused: true holds everything back on purpose)",
			},
		},
		"LimitsInQuotes": {
			why: "a number in quotes is no percentage, and 0 in quotes is refused",
			text: "rolloutStrategy:\n  maxUnavailable: \"0\"\n  maxUnavailablePartitions: \"25\"\n  autoPartitionSize: \"10\"\n" +
				"  partitions:\n  - clusterName: a\n    maxUnavailable: \"25\"\n  - clusterName: b\n    maxUnavailable: \"1\"\n",
			want: []string{
				`f:2:19: error: maxUnavailable: "0" in quotes is refused: a number is written without quotes, a percentage with % [value]`,
				`f:3:29: warning: maxUnavailablePartitions "25" counts as 25 partitions, not as a percentage [value] (write 25% for a percentage, or 25 without quotes)`,
				`f:4:22: warning: autoPartitionSize "10" counts as 10 clusters, not as a percentage [value] (write 10% for a percentage, or 10 without quotes)`,
				`f:7:21: warning: maxUnavailable "25" counts as 25 clusters, not as a percentage [value] (write 25% for a percentage, or 25 without quotes)`,
			},
		},
		"LimitsThatAreMeant": {
			text: "rolloutStrategy:\n  maxUnavailable: 100%\n  maxUnavailablePartitions: 0\n  autoPartitionSize: 0\n  autoPartitionThreshold: 0\n  maxNew: 1\n",
		},
		"Namespaces": {
			why:  "no cluster accepts such a namespace",
			text: "defaultNamespace: My_App\nnamespace: -a\nhelm:\n  valuesFrom:\n  - secretKeyRef: {name: a, namespace: a.b}\ntargetCustomizations:\n- namespace: B\n",
			want: []string{
				`f:1:19: error: defaultNamespace "My_App" is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last [value]`,
				`f:2:12: error: namespace "-a" is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last [value]`,
				`f:5:40: error: helm.valuesFrom[0].secretKeyRef.namespace "a.b" is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last [value]`,
				`f:7:14: error: namespace "B" is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last [value]`,
			},
		},
		"DownstreamResources": {
			text: "downstreamResources:\n- {kind: SECRET, name: a}\n- {kind: Pod, name: a}\ntargetCustomizations:\n- downstreamResources: [{kind: configmap}]\n",
			want: []string{
				`f:3:10: error: downstreamResources[1]: kind "Pod" cannot be copied; want Secret or ConfigMap [value]`,
				"f:5:25: error: downstreamResources[0] has no name [value]",
			},
		},
		"Version": {
			why: "it chooses the chart of a repository; elsewhere nothing reads it",
			text: `helm: {repo: "https://charts.example", chart: a, version: 1.x.y}
targetCustomizations:
- helm: {version: latest}
- helm: {version: ">=1 <2"}
`,
			want: []string{
				`f:1:59: error: helm.version "1.x.y" is not a version or range [version]`,
				`f:3:19: error: helm.version "latest" is not a version or range [version]`,
			},
		},
		"VersionOfLocalChart": {
			text: "helm: {chart: ./a, version: latest}\n",
			want: []string{`f:1:29: warning: helm.version "latest" is not a version or range; nothing reads it, since the chart comes from no repository [version]`},
		},
		"VersionForCustomization": {
			why:  "a customization takes the version of the bundle itself",
			text: "helm: {version: latest}\ntargetCustomizations:\n- helm: {chart: \"oci://a/b\"}\n",
			want: []string{`f:1:17: error: helm.version "latest" is not a version or range [version]`},
		},
		"ValuesFrom": {
			text: "helm:\n  valuesFrom:\n  - secretKeyRef: {key: a}\n  - {}\n",
			want: []string{
				"f:3:19: error: helm.valuesFrom[0].secretKeyRef has no name [value]",
				"f:4:5: warning: helm.valuesFrom[1] names neither a ConfigMap nor a Secret and does nothing [value]",
			},
		},
		"ComparePatches": {
			why: "what leaves nothing out says so",
			text: `diff:
  comparePatches:
  - {kind: Pod, jsonPointers: [/spec/a~1b, spec]}
  - {kind: Pod, name: "[", operations: [{op: remove, path: x}, {op: copy}, {op: add, path: /a, value: b}]}
  - {kind: Pod, name: "(", operations: [{op: ignore}]}
  - {apiVersion: v1}
  - operations: [{path: /a}]
`,
			want: []string{
				`f:3:44: warning: "spec" is no JSON pointer and does nothing [value] (it begins with /, as in /spec/replicas)`,
				`f:4:23: warning: name "[" is no pattern, so it matches no object [value]`,
				`f:4:60: warning: path "x" is no JSON pointer; the operation does nothing [value] (it begins with /, as in /spec/replicas)`,
				`f:4:69: warning: operation "copy" does nothing here [value] (op is remove, add, replace or ignore)`,
				`f:5:23: warning: name "(" is no regular expression, so it matches no other object [value]`,
				"f:6:5: warning: comparePatches[3] has neither jsonPointers nor operations and does nothing [value]",
				"f:7:5: warning: comparePatches[4] has operations and no kind, so it matches no object [value]",
				"f:7:18: warning: the operation has no op and does nothing [value] (op is remove, add, replace or ignore)",
			},
		},
		"NamespaceLabels": {
			text: "namespaceLabels: {a: \"b c\"}\n",
			want: []string{"f:1:22: error: value of namespace label \"a\" is not possible: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?') [value]"},
		},
		"LongName":      {text: "name: " + strings.Repeat("a", 64) + "\n", want: []string{`f:1:7: error: name "` + strings.Repeat("a", 39) + `…" is not possible: want at most 63 characters [value]`}},
		"EmptyThenMore": {text: "---\n---\nname: a\n", want: []string{"f:3:1: warning: only the first document of the file is read [unknown-key]"}},
		"AliasInValues": {text: "x: &a 1\nhelm: {values: {b: *a}}\n", want: []string{`f:1:1: warning: unknown key "x" is ignored [unknown-key]`}},
		"Name":          {text: "name: A/b\n", want: []string{`f:1:7: error: name "A/b" is not possible: want lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`}},
		"Alias":         {text: "x: &a {replicas: 1}\nhelm: {values: *a}\n", want: []string{`f:1:1: warning: unknown key "x" is ignored [unknown-key]`}},
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

func texts(found []finding.Finding) []string {
	var list []string
	for _, f := range found {
		text := f.String()
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		list = append(list, text)
	}
	return list
}

// The name is known even if the rest is wrong, so that the bundle of that name
// can be spared.
func TestNameOfBrokenFile(t *testing.T) {
	f, found := Parse("f", []byte("name: web\nhelm: 5\n"))
	if !finding.HasErrors(found) || f.Name != "web" {
		t.Errorf("want the name, got %q, %v", f.Name, found)
	}
}
