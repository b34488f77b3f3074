package lint

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

func TestDependencies(t *testing.T) {
	cases := map[string]struct {
		why   string
		files map[string]string // fleet.yaml by directory
		want  []string
	}{
		"None": {files: map[string]string{"a": "name: a\ndependsOn: [{name: b}]\n", "b": "name: b\n"}},
		"Itself": {
			files: map[string]string{"a": "name: a\ndependsOn:\n- name: b\n- name: a\n", "b": "name: b\n"},
			want:  []string{`a/fleet.yaml:4:9: error: bundle "a" depends on itself, so it is never deployed [dependency] (take this entry out of dependsOn)`},
		},
		"Cycle": {
			why: "it is one mistake, wherever one begins",
			files: map[string]string{
				"a": "name: a\ndependsOn:\n- name: b\n", "b": "name: b\ndependsOn:\n- selector: {matchLabels: {app: c}}\n",
				"c": "name: c\nlabels: {app: c}\ndependsOn:\n- name: elsewhere\n- name: a\n",
			},
			want: []string{`a/fleet.yaml:3:9: error: dependsOn goes in a circle, so none of these is deployed: a -> b -> c -> a [dependency] (take out one of them: here, or in b/fleet.yaml:3, c/fleet.yaml:5)`},
		},
		"TwoCycles": {
			files: map[string]string{
				"a": "name: a\ndependsOn: [{name: b}]\n", "b": "name: b\ndependsOn: [{name: a}]\n",
				"c": "name: c\ndependsOn: [{name: a}, {name: d}]\n", "d": "name: d\ndependsOn: [{name: c}]\n",
			},
			want: []string{
				`a/fleet.yaml:2:20: error: dependsOn goes in a circle, so none of these is deployed: a -> b -> a [dependency] (take out one of them: here, or in b/fleet.yaml:2)`,
				`c/fleet.yaml:2:31: error: dependsOn goes in a circle, so none of these is deployed: c -> d -> c [dependency] (take out one of them: here, or in d/fleet.yaml:2)`,
			},
		},
		"ByDirectory": {
			why: "the name of the GitRepo is not known, so it is no error",
			files: map[string]string{
				"apps/a": "dependsOn:\n- name: shop-apps-b\n", "apps/b": "dependsOn:\n- name: shop-apps-a\n",
			},
			want: []string{`apps/a/fleet.yaml:2:9: warning: dependsOn goes in a circle if the GitRepo is called "shop", so none of these is deployed: shop-apps-a -> shop-apps-b -> shop-apps-a [dependency] (take out one of them: here, or in apps/b/fleet.yaml:2)`},
		},
		"OtherRepositories": {
			why:   "a name of another repository may end alike",
			files: map[string]string{"a": "dependsOn:\n- name: shop-b\n", "b": "dependsOn:\n- name: infra-a\n"},
		},
		"AcceptedStates": {
			why:   "a bundle that may be not ready holds nothing up",
			files: map[string]string{"a": "name: a\ndependsOn: [{name: b, acceptedStates: [Ready, NotReady]}]\n", "b": "name: b\ndependsOn: [{name: a}]\n"},
		},
		"SelectorMeansNotItself": {
			files: map[string]string{"a": "name: a\nlabels: {app: x}\ndependsOn:\n- selector: {matchLabels: {app: x}}\n"},
		},
		"UncertainSelector": {
			why:   "labels that Fleet adds may be excluded",
			files: map[string]string{"a": "name: a\ndependsOn: [{name: b}]\n", "b": "name: b\ndependsOn:\n- selector: {matchExpressions: [{key: x, operator: DoesNotExist}]}\n"},
		},
		"Misspelt": {
			why: "what is near a name here is meant for it; all else may be elsewhere",
			files: map[string]string{
				"a":               "dependsOn:\n- name: monitorng\n- name: shop-infra-databse\n- name: cert-manager\n- name: shop-infra-api\n",
				"mon":             "name: monitoring\n",
				"infra/database":  "{}",
				"infra/messaging": "{}",
			},
			want: []string{
				`a/fleet.yaml:2:9: warning: dependsOn[0]: no bundle here is called "monitorng" [dependency] (did you mean "monitoring"?)`,
				`a/fleet.yaml:3:9: warning: dependsOn[1]: no bundle here is called "shop-infra-databse" [dependency] (did you mean "shop-infra-database"?)`,
			},
		},
		"Directory": {
			why:   "the name of the GitRepo is part of the name of a bundle that has none of its own",
			files: map[string]string{"a": "dependsOn:\n- name: settings\n- name: apps\n- name: base\n", "settings": "{}", "apps": "name: web\n", "x/base": "{}"},
			want: []string{
				`a/fleet.yaml:2:9: warning: dependsOn[0]: no bundle here is called "settings" [dependency] (the bundle of directory settings is called <name of the GitRepo>-settings)`,
			},
		},
		"Root": {
			why:   "a repository that is one bundle may be called anything",
			files: map[string]string{".": "dependsOn:\n- name: shop\n"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var members []Member
			for _, dir := range slices.Sorted(maps.Keys(c.files)) {
				file, _ := fleetyaml.Parse(dir+"/fleet.yaml", []byte(c.files[dir]))
				members = append(members, Member{Dir: bundle.Dir{Path: dir}, File: &file})
			}
			if diff := cmp.Diff(c.want, texts(Dependencies(members))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
