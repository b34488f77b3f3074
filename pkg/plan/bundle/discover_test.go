package bundle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

func TestDiscover(t *testing.T) {
	tree := files(map[string]string{
		"README.md":               "x",
		"a/cm.yaml":               configMap,
		"a/deep/fleet.yaml":       "",
		"a/deep/er/fleet.yml":     "",
		"b/fleet.yaml":            "",
		"c/only/fleet.yaml":       "",
		"c/only/cm.yaml":          configMap,
		"d/text.txt":              "x",
		"d/.github/workflow.yaml": "x: y",
		"e/.git/fleet.yaml":       "",
		"f/sub/cm.yml":            configMap,
		"g/.h/fleet.yaml":         "",
		"g/.h/app/fleet.yaml":     "",
		"g/x.yaml":                configMap,
		"h/one/README.md":         "x",
		"h/two/cm.yaml":           configMap,
		"i/v2/cm.yaml":            configMap,
		"i/v2/sub/fleet.yaml":     "",
		"i/latest":                "-> v2",
	})
	cases := map[string]struct {
		why   string
		paths []string
		want  []string
		found []string
	}{
		"Root":         {why: "the root owns a/cm.yaml and f/sub/cm.yml", want: []string{".", "a/deep", "a/deep/er", "b", "c/only", "g/.h/app", "i/v2/sub"}},
		"Directory":    {paths: []string{"a"}, want: []string{"a", "a/deep", "a/deep/er"}},
		"LeadingSlash": {paths: []string{"/b/"}, want: []string{"b"}},
		"OnlyNested":   {why: "c owns nothing itself", paths: []string{"c"}, want: []string{"c/only"}},
		"Subdirectory": {why: "YAML further down counts", paths: []string{"f"}, want: []string{"f"}},
		"Glob":         {paths: []string{"[ab]"}, want: []string{"a", "a/deep", "a/deep/er", "b"}},
		"Twice":        {paths: []string{"a/deep", "a"}, want: []string{"a", "a/deep", "a/deep/er"}},
		"Hidden":       {why: "hidden YAML is not deployed, but it makes its directory a bundle, as in the reference", paths: []string{"d"}, want: []string{"d"}},
		"HiddenItself": {
			why: "a directory that is hidden is never deployed", paths: []string{"d/.github"}, want: []string{"d/.github (bare)"},
			found: []string{"d/.github:1:1: warning: hidden directories are not deployed [empty]"},
		},
		"BelowHidden": {why: "what is below one may be", paths: []string{"g"}, want: []string{"g", "g/.h/app"}},
		"GitItself": {
			why: "the directory was named and is there, so a bundle that it was before stays", paths: []string{"e"}, want: []string{"e (bare)"},
			found: []string{"e:1:1: warning: there is nothing to deploy in this directory [empty]"},
		},
		"Bare":    {why: "no path names it", paths: []string{"h/*"}, want: []string{"h/one (bare)", "h/two"}},
		"Nowhere": {paths: []string{"x", "b"}, want: []string{"b"}, found: []string{"x:1:1: warning: the repository has no such directory [empty]"}},
		"Nothing": {
			why: "as in the reference, a path of slashes is no path; it does not deploy a whole repository", paths: []string{"", "/", "b"}, want: []string{"b"},
			found: []string{
				".:1:1: warning: path \"\" is empty and matches nothing [empty]", ".:1:1: warning: path \"/\" is empty and matches nothing [empty]",
			},
		},
		"GlobWithSlash": {
			why: "as in the reference, in which only names are matched", paths: []string{"[ab]/", "b/"}, want: []string{"b"},
			found: []string{"[ab]/:1:1: warning: a pattern that ends with a slash matches nothing [empty]"},
		},
		"GlobOfLinks": {why: "what a link leads to is not deployed a second time", paths: []string{"i/*"}, want: []string{"i/v2", "i/v2/sub"}},
		"LinkInGlob":  {why: "a pattern goes through links", paths: []string{"i/l*/sub"}, want: []string{"i/latest/sub"}},
		"Link":        {why: "a link that is named is followed", paths: []string{"i/latest"}, want: []string{"i/latest", "i/latest/sub"}},
		"AFile":       {paths: []string{"README.md"}, found: []string{"README.md:1:1: warning: it is a file, and paths name directories: write \".\" [empty]"}},
		"Outside":     {paths: []string{"../x"}, found: []string{"../x:1:1: error: the path leads out of the repository [outside]"}},
		"BadPattern":  {paths: []string{"[a"}, found: []string{"[a:1:1: error: the path is not a valid pattern [value]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dirs, found := Discover(tree, c.paths)
			var got []string
			for _, d := range dirs {
				if d.Bare {
					d.Path += " (bare)"
				}
				got = append(got, d.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.found, texts(found)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	tree := files(map[string]string{
		"a/fleet.yaml": "namespace: x\nname: same\n", "a/cm.yaml": configMap, "b/fleet.yaml": "name: same\n", "b/cm.yaml": configMap,
		"g/cm.yaml": configMap, "h/cm.yaml": configMap, "h/fleet.yaml": "name: repo-g\n",
		"c/cm.yaml": configMap, "d/fleet.yaml": "helm: [\n", "d/cm.yaml": configMap, "e/fleet.yaml": "name: known\nhelm: 5\n",
		"f/prod.yaml": "namespace: prod\n", "f/test.yaml": "namespace: test\n", "f/cm.yaml": configMap,
	})
	set := Read(tree, []string{"a", "b", "c", "d", "e", "g", "h", "none"}, nil, Options{Repo: "repo"})
	var got []string
	for _, r := range set.Results {
		got = append(got, fmt.Sprintf("%s: name %q, bundle %v, broken %v", r.Dir.Path, r.Name, r.Bundle != nil, r.Broken()))
	}
	want := []string{
		`a: name "same", bundle false, broken true`,
		`b: name "same", bundle false, broken true`,
		`c: name "repo-c", bundle true, broken false`,
		`d: name "", bundle false, broken true`,
		`e: name "known", bundle false, broken true`,
		`g: name "repo-g", bundle false, broken true`,
		`h: name "repo-g", bundle false, broken true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	found := strings.Join(texts(set.AllFindings()), "\n")
	for _, text := range []string{
		`a/fleet.yaml:2:7: error: bundle name "same" is also that of b`, `b/fleet.yaml:1:7: error: bundle name "same" is also that of a`,
		`g:1:1: error: bundle name "repo-g" is also that of h`, `h/fleet.yaml:1:7: error: bundle name "repo-g" is also that of g`,
		"none:1:1: warning", "d/fleet.yaml:1:1: error: YAML",
	} {
		if !strings.Contains(found, text) {
			t.Errorf("want %q in\n%s", text, found)
		}
	}

	set = Read(tree, []string{"ignored"}, []fleet.BundlePath{{Base: "f", Options: "prod.yaml"}, {Base: "/f", Options: "test.yaml"}, {Base: "x"}}, Options{Repo: "repo"})
	got = nil
	for _, r := range set.Results {
		got = append(got, fmt.Sprintf("%s %s %v", r.Name, r.Bundle.Spec.TargetNamespace, names(r.Bundle)))
	}
	want = []string{"repo-f-prod prod [cm.yaml test.yaml]", "repo-f-test test [cm.yaml prod.yaml]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a list of bundles\n-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x:1:1: error: the repository has no such directory [file]"}, texts(set.Findings)); diff != "" {
		t.Error(diff)
	}
	if !Read(files(map[string]string{"README.md": "x"}), nil, nil, Options{}).Empty() || set.Empty() {
		t.Error("a repository is empty only if nothing in it is a bundle, broken or not")
	}
}

// A path that leads nowhere comes with the one that is probably meant.
func TestAbsent(t *testing.T) {
	tree := files(map[string]string{"apps/web/a.yaml": configMap, "apps/db/a.yaml": configMap, "infra/a.yaml": configMap})
	for p, want := range map[string]string{
		"infar":        `did you mean "infra"?`,
		"apps/wbe":     `did you mean "apps/web"?`,
		"/aps/web/":    `did you mean "apps/web"?`,
		"aps/*":        `did you mean "apps/*"?`,
		"aps/none":     "",
		"other":        "",
		"apps/x*":      "",
		"apps/*/":      "leave the slash out",
		"infra/a.yaml": "",
	} {
		set := Read(tree, []string{"infra", p}, nil, Options{Repo: "r"})
		if len(set.Absent) != 1 || set.Absent[0].Path != p || set.Absent[0].Hint != want || !slices.Contains(set.Findings, set.Absent[0].Found) {
			t.Errorf("%s: want %q, got %+v", p, want, set.Absent)
		}
		refused := set.RefuseAbsent()
		if len(refused.Findings) != 1 || refused.Findings[0].Severity != finding.Error || refused.Findings[0].Hint != want ||
			set.Findings[0].Severity != finding.Warning {
			t.Errorf("%s: want one error with the hint %q, and the set as it was, got %+v and %+v", p, want, refused.Findings, set.Findings)
		}
	}
}
