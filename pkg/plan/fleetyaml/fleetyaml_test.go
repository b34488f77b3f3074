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
		return name == ".root" || name == ".customized"
	}, cmp.Ignore()), cmp.AllowUnexported(File{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if line, column := f.At("helm", "releaseName"); line != 7 || column != 16 {
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
			want: []string{"f:3:1: error: YAML: found character that cannot start any token [yaml]"},
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
		"OldYAML": {why: "yes is true for the parser of the reference", text: "paused: yes\n"},
		"NumberAsText": {
			why:  "as in the reference: only some texts may be numbers",
			text: "namespace: 123\nlabels: {a: 1}\nname: 7\n",
			want: []string{"f:1:12: error: namespace must be a text, not 123 [type] (put it in quotes)"},
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
			want: []string{"f:1:1: warning: only the first document of the file is read [unknown-key]"},
		},
		"ImageScans": {
			text: "imageScans:\n- image: x\n  tagName: z\n  interval: 5m\n",
			want: []string{"f:2:1: warning: imageScans are accepted, but not acted on yet [not-implemented]"},
		},
		"DependsOn": {
			text: "dependsOn:\n- acceptedStates: [Ready, Fine]\n",
			want: []string{
				"f:2:3: error: dependsOn[0] needs a name or a selector [value]",
				`f:2:27: error: dependsOn[0].acceptedStates: "Fine" is not a state; want one of ErrApplied, WaitApplied, Modified, OutOfSync, Pending, NotReady, Ready [value]`,
			},
		},
		"ReleaseName": {
			text: "helm: {releaseName: A}\ntargetCustomizations:\n- helm: {releaseName: b_}\n",
			want: []string{
				`f:1:21: error: helm.releaseName "A" is not possible: want at most 53 lower case letters, digits, - and . [value]`,
				`f:3:23: error: helm.releaseName "b_" is not possible: want at most 53 lower case letters, digits, - and . [value]`,
			},
		},
		"Name":  {text: "name: A/b\n", want: []string{`f:1:7: error: name "A/b" is not possible: want lower case letters, digits, - and . [value]`}},
		"Alias": {text: "x: &a {replicas: 1}\nhelm: {values: *a}\n", want: []string{`f:1:1: warning: unknown key "x" is ignored [unknown-key]`}},
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

func TestBombs(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		prev := string(rune('0' + i - 1))
		b.WriteString("a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat("*a"+prev+",", 9) + "*a" + prev + "]\n")
	}
	b.WriteString("helm: {valuesFiles: *a8}\n")
	if _, found := Parse("f", []byte(b.String())); !finding.HasErrors(found) {
		t.Error("aliases must not unfold without bound")
	}
	if _, found := Parse("f", make([]byte, MaxBytes+1)); !finding.HasErrors(found) {
		t.Error("a file beyond the limit must be refused")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", "name: a", "helm: {values: {a: 1}}", "targetCustomizations:\n- name: x\n  clusterSelector: {}\n",
		"labels: {fleet.cattle.io/x: y}", "a: &a [*a]", "<<: {namespace: x}", "helm:\n\tx", "? a\n: b", "dependsOn: [{}]", "rolloutStrategy: {maxUnavailable: 10%}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, found := Parse("f", data)
		if finding.HasErrors(found) {
			return
		}
		for key := range file.Labels {
			if Reserved(key) {
				t.Fatalf("reserved label %q", key)
			}
		}
		for i, target := range file.Spec.Targets {
			if target.Name == "" {
				t.Fatalf("target %d without a name", i)
			}
			file.AtTarget(i, "helm", "chart")
		}
	})
}
