package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// everywhere is the target of a repository that goes to every cluster.
var everywhere = bundle.Options{Repo: "r", ImageScans: true}

func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

const noOption = "(the targets of the GitRepo select the clusters, or overrideTargets here; only fleet apply takes customizations for targets)"

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		why   string
		yaml  string
		files map[string]string
		want  []string
	}{
		"Nothing": {},
		"SameLabels": {
			yaml: "targetCustomizations:\n  - name: prod\n    clusterSelector: {matchLabels: {env: prod}}\n    namespace: a\n" +
				"  - name: prod-eu\n    clusterSelector: {matchLabels: {env: prod, region: eu}}\n    namespace: b\n",
			want: []string{`app/fleet.yaml:5:5: warning: customization "prod-eu" is never used [unreachable] ("prod" (line 2) matches the same clusters first; put "prod-eu" before it)`},
		},
		"OtherOrder": {
			why:  "the narrower one first is how it is meant",
			yaml: "targetCustomizations:\n  - clusterSelector: {matchLabels: {env: prod, region: eu}}\n  - {clusterSelector: {matchLabels: {env: prod}}, namespace: a}\n",
		},
		"Everything": {
			why:  "nothing gets past an empty selector",
			yaml: "targetCustomizations:\n  - {clusterSelector: {}, namespace: a}\n  - {clusterName: c1, namespace: b}\n  - {clusterGroup: a, namespace: c}\n",
			want: []string{
				`app/fleet.yaml:3:5: warning: customization 2 of targetCustomizations is never used [unreachable] (1 of targetCustomizations (line 2) matches the same clusters first; put 2 of targetCustomizations before it)`,
				`app/fleet.yaml:4:5: warning: customization 3 of targetCustomizations is never used [unreachable] (1 of targetCustomizations (line 2) matches the same clusters first; put 3 of targetCustomizations before it)`,
			},
		},
		"AllMatches": {
			why:  "then each of them applies",
			yaml: "targetCustomizationMode: AllMatches\ntargetCustomizations:\n  - {clusterSelector: {}, namespace: a}\n  - {clusterName: c1, namespace: b}\n",
		},
		"NoOption": {
			why:  "nothing behind it can want its clusters",
			yaml: "targetCustomizations:\n  - {clusterName: c1, namespace: a}\n  - {name: b, clusterName: c2, helm: {values: }}\n",
			want: []string{`app/fleet.yaml:3:5: warning: customization "b" sets no option [unreachable] ` + noOption},
		},
		"NoOptionFirst": {
			why: "it takes its clusters from the one behind it, unless no cluster fits both",
			yaml: "targetCustomizations:\n  - {clusterSelector: {matchLabels: {env: dev}}, helm: {values: {}}, yaml: {overlays: []}}\n  - {clusterGroup: c, diff: {}}\n" +
				"  - {clusterSelector: {matchLabels: {env: prod}}, namespace: a}\n  - {clusterGroup: b}\n",
			want: []string{
				`app/fleet.yaml:2:5: warning: customization 1 of targetCustomizations sets no option [unreachable] ` + noOption,
				`app/fleet.yaml:5:5: warning: customization 4 of targetCustomizations sets no option [unreachable] ` + noOption,
			},
		},
		"NoOptionOfAll": {
			why:  "each of those that match applies, so none takes anything from another",
			yaml: "targetCustomizationMode: AllMatches\ntargetCustomizations:\n  - {clusterName: c1}\n  - {clusterSelector: {}, namespace: b}\n",
			want: []string{`app/fleet.yaml:3:5: warning: customization 1 of targetCustomizations sets no option [unreachable] ` + noOption},
		},
		"AnOption": {
			why:  "what is set counts, whatever it is",
			yaml: "targetCustomizations:\n  - {clusterName: c1, doNotDeploy: true}\n  - {clusterName: c2, helm: {values: {a: {}}}}\n  - {clusterName: c3, helm: {takeOwnership: true}}\n  - {clusterName: c4, kustomize: {dir: a}}\n",
		},
		"OnlyTargets": {
			why:  "they look like those of a GitRepo",
			yaml: "targets:\n  - name: prod\n    clusterSelector: {matchLabels: {env: prod}}\n",
			want: []string{`app/fleet.yaml:2:5: warning: customization "prod" sets no option [unreachable] ` + noOption},
		},
		"NoCriteria": {
			yaml: "targetCustomizations:\n  - name: a\n    namespace: b\noverrideTargets:\n  - name: c\n",
			want: []string{
				`app/fleet.yaml:2:5: warning: customization "a" is never used: it has no criteria and matches no cluster [unreachable] (clusterSelector: {} matches every cluster)`,
				`app/fleet.yaml:5:5: warning: overrideTargets[0] has no criteria and matches no cluster [unreachable] (clusterSelector: {} matches every cluster)`,
			},
		},
		"OlderName": {
			why:  "entries of targets come first, wherever they stand",
			yaml: "targetCustomizations:\n  - {name: a, clusterName: c1}\ntargets:\n  - {name: b, clusterName: c1, namespace: x}\n",
			want: []string{`app/fleet.yaml:2:5: warning: customization "a" is never used [unreachable] ("b" (line 4) matches the same clusters first; put "a" before it)`},
		},
		"NotMerged": {
			yaml: "targetCustomizations:\n  - clusterName: c1\n    deleteCRDResources: true\n    helm:\n      maxHistory: 3\n",
			want: []string{
				`app/fleet.yaml:3:25: warning: deleteCRDResources of a customization is ignored; only the bundle's own counts [not-merged]`,
				`app/fleet.yaml:5:19: warning: helm.maxHistory of a customization is ignored; only the bundle's own counts [not-merged]`,
			},
		},
		"Values": {
			yaml: "helm:\n  values:\n    at: ${ now | date \"now\" }\n    text: |\n      a\n      b ${ randAlphaNum 5 }\n    label: ${ .ClusterLabels.now } now\n",
			want: []string{
				`app/fleet.yaml:3:9: warning: template function "now" gives another result each time, and each result is a new deployment [impure]`,
				`app/fleet.yaml:6:11: warning: template function "randAlphaNum" gives another result each time, and each result is a new deployment [impure]`,
			},
		},
		"ValuesAreText": {
			why:  "without templates these are words",
			yaml: "helm: {disablePreProcess: true, values: {a: \"${ now }\"}}\n",
		},
		"TemplateValuesOfTarget": {
			yaml: "targetCustomizations:\n  - clusterName: c1\n    helm:\n      templateValues:\n        a: ${ uuidv4 }\n",
			want: []string{`app/fleet.yaml:5:12: warning: template function "uuidv4" gives another result each time, and each result is a new deployment [impure]`},
		},
		"Chart": {
			files: map[string]string{
				"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
				"templates/a.yaml": "a: {{ if true }}{{ now | quote }}{{ end }}\n\n{{- define \"x\" }}{{ genCA \"a\" 1 }}{{ end }}\nb: {{ getHostByName \"h\" }} # now\n",
			},
			want: []string{
				`app/templates/a.yaml:1:20: warning: template function "now" gives another result whenever the chart is rendered [impure]`,
				`app/templates/a.yaml:3:21: warning: template function "genCA" gives another result whenever the chart is rendered [impure]`,
				`app/templates/a.yaml:4:7: warning: template function "getHostByName" asks the DNS of each cluster; it is not asked here [impure] (helm.disableDNS: true switches it off)`,
			},
		},
		"ChartWithoutDNS": {
			yaml:  "helm: {disableDNS: true}\n",
			files: map[string]string{"templates/a.yaml": "a: {{ getHostByName \"h\" }}\n"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"app/cm.yaml": manifest, "app/fleet.yaml": c.yaml}
			for name, text := range c.files {
				files["app/"+name] = text
			}
			fsys := tree(files)
			set := bundle.Read(fsys, []string{"app"}, nil, everywhere)
			if len(set.Results) != 1 || set.Results[0].Bundle == nil {
				t.Fatalf("no bundle: %v", set.AllFindings())
			}
			var got []string
			for _, f := range Check(fsys, set.Results[0]) {
				text := f.String()
				if f.Hint != "" {
					text += " (" + f.Hint + ")"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestCheckEmpty(t *testing.T) {
	fsys := tree(map[string]string{"app/fleet.yaml": "namespace: a\n", "app/.hidden": "x"})
	set := bundle.Read(fsys, []string{"app"}, nil, everywhere)
	var got []string
	for _, r := range set.Results {
		for _, f := range Check(fsys, r) {
			got = append(got, f.String())
		}
	}
	want := []string{"app:1:1: error: nothing to deploy: no YAML, chart or kustomization here [empty]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a fleet.yaml accepts and nothing acts on is said where it stands.
func TestCheckMissing(t *testing.T) {
	text := "targetCustomizations:\n- clusterName: a\n  allowedTargetNamespaceSelector: {matchLabels: {a: b}}\n"
	fsys := tree(map[string]string{"app/fleet.yaml": text, "app/cm.yaml": manifest})
	set := bundle.Read(fsys, []string{"app"}, nil, everywhere)
	found := Check(fsys, set.Results[0])
	if len(found) != 1 || found[0].Rule != finding.RuleNotImplemented || found[0].Line != 3 {
		t.Errorf("want the place of the selector, got %v", found)
	}
}

// A bundle with an error is looked at as far as it could be read.
func TestCheckBroken(t *testing.T) {
	fsys := tree(map[string]string{"app/fleet.yaml": "helm: {repo: \"https://a\", chart: b, version: c}\ntargetCustomizations: [{}]\n"})
	set := bundle.Read(fsys, []string{"app"}, nil, everywhere)
	if !set.Results[0].Broken() {
		t.Fatal("a version that is none must break the bundle")
	}
	if found := Check(fsys, set.Results[0]); len(found) != 1 || found[0].Rule != finding.RuleUnreachable {
		t.Errorf("want the customization, got %v", found)
	}
}

// Every rule has a line in the table, and the table is in order.
func TestRules(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../finding/finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Rule") {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names)
	var got []string
	for _, r := range Rules() {
		got = append(got, r.Name)
		if r.Text == "" || strings.Contains(r.Text, "\n") || r.Severity == "" {
			t.Errorf("%s: want one line and a severity", r.Name)
		}
		if same, ok := RuleOf(r.Name); !ok || same != r {
			t.Errorf("%s is not found", r.Name)
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("rules without a line, or out of order: -constants +table\n%s", diff)
	}
	if _, ok := RuleOf("none"); ok {
		t.Error("there is no such rule")
	}
}

func TestSummary(t *testing.T) {
	var s Summary
	s.Count([]finding.Finding{{Severity: finding.Error}, {Severity: finding.Warning}, {Severity: finding.Error}})
	if s.Errors != 2 || s.Warnings != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestSamples(t *testing.T) {
	text := `helm:
  values:
    tier: ${ .ClusterLabels.tier }
    zone: ${ get .ClusterLabels "zone" }
    note: ${ .ClusterAnnotations.note }
    size: ${ .ClusterValues.a.b } ${ .ClusterValues.a.c }
targetCustomizations:
- clusterName: c1
- clusterSelector: {matchLabels: {tier: gold}}
- clusterSelector: {matchLabels: {tier: gold}}
- clusterGroup: eu
  clusterSelector: {matchExpressions: [{key: env, operator: Exists}, {key: zone, operator: DoesNotExist}, {key: x, operator: NotIn, values: [v]}]}
- clusterGroupSelector: {matchLabels: {ring: "1"}}
- clusterSelector: {matchExpressions: [{key: env, operator: In, values: [a]}, {key: env, operator: NotIn, values: [a]}]}
- clusterSelector: {}
`
	set := bundle.Read(tree(map[string]string{"app/fleet.yaml": text, "app/cm.yaml": manifest}), []string{"app"}, nil, everywhere)
	type sample struct {
		Title, Name string
		Labels      map[string]string
		Group       string
	}
	var got []sample
	for _, s := range Samples(set) {
		one := sample{Title: s.Title, Name: s.Facts.Name, Labels: s.Facts.Labels}
		for _, g := range s.Groups {
			one.Group = g.Name + " " + g.Labels["ring"]
		}
		got = append(got, one)
		if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": made, "c": made}}, s.Facts.TemplateValues); diff != "" || s.Facts.Annotations["note"] == "" || !s.Guessed {
			t.Errorf("%s: what the templates ask for is missing: %s", s.Title, diff)
		}
	}
	name := func(n string, more ...string) map[string]string {
		out := map[string]string{fleet.LabelManagementCluster: n}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	want := []sample{
		{"any other cluster", "any-other-cluster", name("any-other-cluster", "tier", made, "zone", made), ""},
		{"c1", "c1", name("c1", "tier", made, "zone", made), ""},
		{"tier=gold", "tier-gold", name("tier-gold", "tier", "gold", "zone", made), ""},
		{"group eu and env,x notin (v),!zone", "group-eu-and-env-x-notin-v-zone", name("group-eu-and-env-x-notin-v-zone", "tier", made, "env", made), "eu "},
		{"groups ring=1", "groups-ring-1", name("groups-ring-1", "tier", made, "zone", made), made + " 1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !AsksClusters(set.Results[0].Bundle) || AsksClusters(&fleet.Bundle{}) {
		t.Error("only a bundle with such templates depends on what a cluster is")
	}
}

func TestWhich(t *testing.T) {
	sample := func(title string, labels ...string) Sample {
		s := Sample{Title: title}
		s.Facts.Labels = map[string]string{}
		for _, l := range labels {
			s.Facts.Labels[l] = "x"
		}
		return s
	}
	a, b, c := sample("a", "name"), sample("b", "name", "tier"), sample("c", "name", "tier", "zone")
	cases := map[string]struct {
		why            string
		failing, tried []Sample
		want           string
	}{
		"All":   {"nothing sets any apart", []Sample{a, b}, []Sample{a, b}, "for every sample cluster"},
		"Label": {"the label that the others have", []Sample{a}, []Sample{a, b, c}, `for clusters without label "tier"; 1 of 3 sample clusters: a`},
		"Two":   {"either of two labels may be it", []Sample{a}, []Sample{a, c}, "1 of 2 sample clusters: a"},
		"None":  {"it is not for want of a label", []Sample{c}, []Sample{a, b, c}, "1 of 3 sample clusters: c"},
		"Many":  {"three names are enough", []Sample{a, b, c, sample("d"), sample("e")}, []Sample{a, b, c, sample("d"), sample("e"), sample("f")}, "5 of 6 sample clusters: a, b, c, 2 more"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := DescribeFailing(c.failing, c.tried); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}
