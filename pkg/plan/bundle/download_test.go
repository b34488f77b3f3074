package bundle

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// fetchAll assembles a directory, and what it asks for is taken from have, until
// nothing is missing. It returns what was asked for, in order.
func fetchAll(t *testing.T, tree map[string]string, have map[chart.Request]chart.Fetched) (Result, []chart.Request) {
	t.Helper()
	o := Options{Repo: "repo", Fetched: map[chart.Request]chart.Fetched{}}
	var asked []chart.Request
	for range 5 {
		r := Assemble(files(tree), Dir{Path: "d"}, o)
		if len(r.Missing) == 0 {
			return r, asked
		}
		if r.Bundle != nil || r.Broken() {
			t.Fatalf("something is missing, and it is finished: %v", r.Findings)
		}
		for _, request := range r.Missing {
			got, ok := have[request]
			if !ok {
				t.Fatalf("the fake has no %+v", request)
			}
			asked = append(asked, request)
			o.Fetched[request] = got
		}
	}
	t.Fatal("it never ends")
	return Result{}, nil
}

func packed(t *testing.T, name, version string) []byte {
	t.Helper()
	data, err := packChart(name, []file{{name: chartFile, data: []byte("apiVersion: v2\nname: " + name + "\nversion: " + version + "\n")}}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDownloads(t *testing.T) {
	const repo = "https://charts.example"
	web := func(v string) chart.Request { return chart.Request{Repo: repo, Chart: "web", Version: v} }
	dep := chart.Request{Repo: "https://dep.example", Chart: "dep", Version: "1.x", Archive: true}
	chartOfWeb := map[string]string{"web/Chart.yaml": "name: web\nversion: 1.0.0\n", "web/templates/a.yaml": "{{ }}"}
	got := func(texts map[string]string) chart.Fetched { return chart.Fetched{Files: files(texts), Digest: "x"} }
	cases := map[string]struct {
		why   string
		tree  map[string]string
		have  map[chart.Request]chart.Fetched
		asked []chart.Request
		want  []string // resources; those of a chart after its version
		found []string
		retry bool
	}{
		"Repository": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}", "d/a.yaml": configMap},
			have:  map[chart.Request]chart.Fetched{web("1.x"): got(chartOfWeb)},
			asked: []chart.Request{web("1.x")},
			want:  []string{"1.x/web/Chart.yaml", "1.x/web/templates/a.yaml", "a.yaml"},
		},
		"Targets": {
			why: "each version is downloaded once; what a target leaves out it has from the bundle",
			tree: map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}\ntargetCustomizations:\n" +
				"- {clusterName: a, helm: {version: 2.x}}\n- {clusterName: b, helm: {version: 2.x, values: {a: 1}}}\n- {clusterName: c, helm: {values: {a: 1}}}\n- {clusterName: e}\n"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): got(chartOfWeb), web("2.x"): got(chartOfWeb)},
			asked: []chart.Request{web("1.x"), web("2.x")},
			want:  []string{"1.x/web/Chart.yaml", "1.x/web/templates/a.yaml", "2.x/web/Chart.yaml", "2.x/web/templates/a.yaml"},
		},
		"Rules": {
			why: "a downloaded chart is read as a directory is",
			tree: map[string]string{
				"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x, valuesFiles: [values.yaml]}", "d/values.yaml": "a: 1",
			},
			have: map[chart.Request]chart.Fetched{web("1.x"): got(map[string]string{
				"Chart.yaml": "name: web", ".hidden": "x", ".fleetignore": "*.md", "a.md": "x", "sub/b.md": "x", "values.yaml": "skipped, since a values file has this name",
				"fleet.yaml": "x", "fleet.yml": "stays", "sub/values.yaml": "stays", "link": "-> fleet.yml",
			})},
			asked: []chart.Request{web("1.x")},
			want:  []string{"1.x/Chart.yaml", "1.x/fleet.yml", "1.x/link", "1.x/sub/values.yaml"},
		},
		"DependencyOfADownload": {
			tree: map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}"},
			have: map[chart.Request]chart.Fetched{
				web("1.x"): got(map[string]string{"web/Chart.yaml": "name: web\ndependencies:\n- {name: dep, version: 1.x, repository: https://dep.example}\n"}),
				dep:        {Archive: packed(t, "dep", "1.2.3"), Name: "dep", Version: "1.2.3"},
			},
			asked: []chart.Request{web("1.x"), dep},
			want:  []string{"1.x/web/Chart.lock", "1.x/web/Chart.yaml", "1.x/web/charts/dep-1.2.3.tgz"},
		},
		"CannotBeHad": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  repo: https://charts.example\n  chart: web\n  version: 1.x\n"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): {Err: reconcile.TerminalError("NotFound", errors.New("there is no chart \"web\"\nin the index"))}},
			asked: []chart.Request{web("1.x")},
			found: []string{`d/fleet.yaml:2:9: error: there is no chart "web" in the index [chart]`},
		},
		"NoSuchChart": {
			why:  "the place is that of the name that is wrong",
			tree: map[string]string{"d/fleet.yaml": "helm:\n  repo: https://charts.example\n  chart: web\n  version: 1.x\n"},
			have: map[chart.Request]chart.Fetched{web("1.x"): {Err: reconcile.TerminalError(chart.ReasonChartNotFound, errors.New("no chart"))}}, asked: []chart.Request{web("1.x")},
			found: []string{"d/fleet.yaml:3:10: error: no chart [chart]"},
		},
		"NoSuchVersion": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  repo: https://charts.example\n  chart: web\n  version: 1.x\n"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): {Err: reconcile.TerminalError(chart.ReasonVersionNotFound, errors.New("no version"))}},
			asked: []chart.Request{web("1.x")},
			found: []string{"d/fleet.yaml:4:12: error: no version [chart]"},
		},
		"LaterPerhaps": {
			tree:  map[string]string{"d/fleet.yaml": "helm:\n  repo: https://charts.example\n  chart: web\n  version: 1.x\n"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): {Err: reconcile.RequeueError("Unreachable", time.Minute, errors.New("no answer"))}},
			asked: []chart.Request{web("1.x")}, retry: true,
			found: []string{"d/fleet.yaml:2:9: error: no answer [chart]"},
		},
		"Offline": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): {Err: reconcile.TerminalError(ReasonOffline, errors.New("nothing is downloaded with --offline"))}},
			asked: []chart.Request{web("1.x")},
			found: []string{"d/fleet.yaml:1:14: error: nothing is downloaded with --offline [offline]"},
		},
		"NothingIsAskedForWhatIsBroken": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}", "d/.fleetignore": "[a"},
			found: []string{"d/.fleetignore:1:1: error: this is not a valid pattern [ignore-file]"},
		},
		"LinkOutOfADownload": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {repo: https://charts.example, chart: web, version: 1.x}"},
			have:  map[chart.Request]chart.Fetched{web("1.x"): got(map[string]string{"web/Chart.yaml": "name: web", "web/x": "-> ../../../etc/passwd"})},
			asked: []chart.Request{web("1.x")},
			found: []string{`d/fleet.yaml:1:14: error: chart "web": web/x: symbolic link cannot be followed: it leads out of the repository [outside]`},
		},
		"ArchiveInTheTree": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: web-1.0.0.tgz}", "d/web-1.0.0.tgz": "x"},
			found: []string{`d/fleet.yaml:1:15: error: helm.chart "web-1.0.0.tgz" is an archive in the repository; agents deploy only charts that are unpacked [chart]`},
		},
		"ChartThroughALink": {
			tree:  map[string]string{"d/fleet.yaml": "helm: {chart: web}", "d/web": "-> ../../x"},
			found: []string{`d/fleet.yaml:1:15: error: helm.chart "web" is outside of the bundle's directory [outside]`, "d/web:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, asked := fetchAll(t, c.tree, c.have)
			short := func(name string) string {
				for request := range c.have {
					name = strings.Replace(name, request.Dir(), request.Version, 1)
				}
				return name
			}
			var got []string
			for _, n := range names(r.Bundle) {
				got = append(got, short(n))
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Errorf("asked for\n-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
			if r.Retry != c.retry {
				t.Errorf("retry %v", r.Retry)
			}
			if diff := cmp.Diff(len(c.asked), len(r.Inputs.Requests())); diff != "" && len(c.found) == 0 {
				t.Errorf("what was asked for is no input: %s", diff)
			}
		})
	}
}

// The digest in the lock is the one that Helm's own types give; the time is not
// the present one.
func TestLock(t *testing.T) {
	wanted := []*dependency{
		{Name: "dep", Version: "1.x", Repository: "https://dep.example", Condition: "dep.enabled", Tags: []string{"a"}, Alias: "other", ImportValues: []any{"data"}},
		{Name: "local", Version: ">=0.1.0", Repository: "file://../local"},
	}
	taken := []*dependency{{Name: "dep", Version: "1.2.3", Repository: "https://dep.example"}, {Name: "local", Version: "0.1.0", Repository: "file://../local"}}
	l, err := newLock(wanted, taken)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `dependencies:
- name: dep
  repository: https://dep.example
  version: 1.2.3
- name: local
  repository: file://../local
  version: 0.1.0
digest: ` + helmDigest(t, wanted, taken) + `
generated: "1970-01-01T00:00:00Z"
`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDependencies(t *testing.T) {
	remote := func(repo, name, version string) chart.Request {
		return chart.Request{Repo: repo, Chart: name, Version: version, Archive: true}
	}
	redis := remote("https://r.example", "redis", "1.x")
	have := func(r chart.Request, name, version string) map[chart.Request]chart.Fetched {
		return map[chart.Request]chart.Fetched{r: {Archive: packed(t, name, version), Name: name, Version: version}}
	}
	const head = "apiVersion: v2\nname: c\nversion: 1.0.0\n"
	onRedis := head + "dependencies:\n- name: redis\n  version: 1.x\n  repository: https://r.example\n"
	lib := "apiVersion: v2\nname: lib\nversion: 0.1.0\n"
	cases := map[string]struct {
		why   string
		tree  map[string]string
		have  map[chart.Request]chart.Fetched
		want  []string
		found []string
	}{
		"Satisfied": {
			why:  "the name counts, not the version, and nothing is changed: not even a lock is written",
			tree: map[string]string{"d/Chart.yaml": onRedis, "d/charts/any/Chart.yaml": "name: redis\nversion: 9.9.9\n", "d/charts/README.md": "x"},
			want: []string{"Chart.yaml", "charts/README.md", "charts/any/Chart.yaml"},
		},
		"SatisfiedByAnArchive": {
			tree: map[string]string{"d/Chart.yaml": onRedis, "d/charts/whatever.tgz": string(packed(t, "redis", "0.0.1"))},
			want: []string{"Chart.yaml", "charts/whatever.tgz"},
		},
		"Updated": {
			tree: map[string]string{"d/Chart.yaml": onRedis}, have: have(redis, "redis", "1.2.3"),
			want: []string{"Chart.lock", "Chart.yaml", "charts/redis-1.2.3.tgz"},
		},
		"Replaced": {
			why: "all are packaged again, and archives that stood there go",
			tree: map[string]string{"d/Chart.yaml": onRedis + "- {name: lib, version: '>=0', repository: 'file://../lib'}\n", "d/charts/lib-0.0.9.tgz": string(packed(t, "lib", "0.0.9")),
				"lib/Chart.yaml": lib, "d/charts/old.tgz": string(packed(t, "old", "1.0.0")), "d/charts/dir/Chart.yaml": "name: dir\nversion: 1.0.0"},
			have: have(redis, "redis", "1.2.3"),
			want: []string{"Chart.lock", "Chart.yaml", "charts/dir/Chart.yaml", "charts/lib-0.1.0.tgz", "charts/redis-1.2.3.tgz"},
		},
		"Version1": {
			tree: map[string]string{"d/Chart.yaml": "apiVersion: v1\nname: c\nversion: 1.0.0\n", "d/requirements.yaml": "dependencies:\n- {name: redis, version: 1.x, repository: https://r.example}\n"},
			have: have(redis, "redis", "1.2.3"),
			want: []string{"Chart.yaml", "charts/redis-1.2.3.tgz", "requirements.lock", "requirements.yaml"},
		},
		"Registry": {
			tree: map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "oci://r.example/charts")},
			have: have(remote("oci://r.example/charts/redis", "", "1.x"), "redis", "1.2.3"),
			want: []string{"Chart.lock", "Chart.yaml", "charts/redis-1.2.3.tgz"},
		},
		"Ignored": {why: "what dependencies bring is subject to .fleetignore as all files are", tree: map[string]string{"d/Chart.yaml": onRedis, "d/.fleetignore": "charts/*"}, have: have(redis, "redis", "1.2.3"), want: []string{"Chart.lock", "Chart.yaml"}},
		"Nested": {tree: map[string]string{"d/a.yaml": configMap, "d/sub/Chart.yaml": onRedis}, have: have(redis, "redis", "1.2.3"), want: []string{"a.yaml", "sub/Chart.lock", "sub/Chart.yaml", "sub/charts/redis-1.2.3.tgz"},
			found: []string{unusedChart("d", "sub")}},
		"Disabled": {tree: map[string]string{"d/fleet.yaml": "helm: {disableDependencyUpdate: true}", "d/Chart.yaml": onRedis}, want: []string{"Chart.yaml"}},
		"Hidden":   {tree: map[string]string{"d/a.yaml": configMap, "d/.c/Chart.yaml": onRedis}, want: []string{"a.yaml"}},
		"Local": {
			tree: map[string]string{"d/Chart.yaml": head + "dependencies:\n- {name: lib, version: 0.x, repository: 'file://./lib'}\n", "d/lib/Chart.yaml": lib, "d/lib/.helmignore": "*.md", "d/lib/a.md": "x"},
			want: []string{"Chart.lock", "Chart.yaml", "charts/lib-0.1.0.tgz", "lib/Chart.yaml", "lib/a.md"},
		},
		"Alias": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "'@stable'")},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": repository "@stable" is a name that only your own Helm knows [chart]`},
		},
		"NoURL": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "stable")},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": its repository is no URL [chart]`},
		},
		"NameLeadsOut": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "redis", "../../redis")},
			found: []string{"d/Chart.yaml:5:1: error: dependency has no valid name [chart]"},
		},
		"FileLeadsOut": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "file://../../etc")},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": file://../../etc leads out of the repository [outside]`},
		},
		"FileIsAbsolute": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "file:///etc")},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": file:///etc leads out of the repository [outside]`},
		},
		"FileThroughALink": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "file://../up"), "up": "-> ../../etc"},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": it leads out of the repository [outside]`},
		},
		"LinkInAPackage": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "https://r.example", "file://../lib"), "lib/Chart.yaml": "name: redis\nversion: 1.0.0", "lib/secret": "-> ../other", "other": "x"},
			found: []string{`d/Chart.yaml:7:1: error: dependency "redis": lib cannot be packaged: symbolic link lib/secret leads out of the chart [chart]`},
		},
		"Cycle": {
			tree: map[string]string{"d/Chart.yaml": head + "dependencies:\n- {name: lib, version: 0.x, repository: 'file://../lib'}\n",
				"lib/Chart.yaml": lib + "dependencies:\n- {name: c, version: 1.x, repository: 'file://../d'}\n"},
			found: []string{`d/Chart.yaml:5:42: error: dependency "lib": lib depends on, or holds, the chart that depends on it [chart]`},
		},
		"HoldsItself": {
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/sub/Chart.yaml": head + "dependencies:\n- {name: c, version: 1.x, repository: 'file://..'}\n"},
			found: []string{`d/sub/Chart.yaml:5:40: error: dependency "c": d depends on, or holds, the chart that depends on it [chart]`},
		},
		"OtherVersion": {
			tree:  map[string]string{"d/Chart.yaml": head + "dependencies:\n- {name: lib, version: 2.x, repository: 'file://../lib'}\n", "lib/Chart.yaml": lib},
			found: []string{`d/Chart.yaml:5:24: error: dependency "lib": lib has version "0.1.0", which does not satisfy "2.x" [version]`},
		},
		"NoRange": {
			tree:  map[string]string{"d/Chart.yaml": strings.ReplaceAll(onRedis, "1.x", "newest")},
			found: []string{`d/Chart.yaml:6:1: error: dependency "redis": version "newest" is no version and no range [version]`},
		},
		"Liar": {
			why:  "the repository hands out another chart",
			tree: map[string]string{"d/Chart.yaml": onRedis}, have: map[chart.Request]chart.Fetched{redis: {Archive: []byte("x"), Name: "../../evil", Version: "1.0.0"}},
			found: []string{`d/Chart.yaml:5:1: error: dependency "redis": the repository has a chart named "../../evil" for it [chart]`},
		},
		"VersionLeadsOut": {
			tree: map[string]string{"d/Chart.yaml": onRedis}, have: map[chart.Request]chart.Fetched{redis: {Archive: []byte("x"), Name: "redis", Version: "../../1.0.0"}},
			found: []string{`d/Chart.yaml:6:1: error: dependency "redis": the repository has version "../../1.0.0" for it, which is none [chart]`},
		},
		"NotAnArchive": {
			tree:  map[string]string{"d/Chart.yaml": onRedis, "d/charts/x.tgz": "x"},
			found: []string{"d/charts/x.tgz:1:1: error: cannot be read as a chart: it is not a gzip archive [chart]"},
		},
		"LockThatIsALink": {
			why:   "nothing is downloaded for a bundle that is refused",
			tree:  map[string]string{"d/Chart.yaml": onRedis, "d/Chart.lock": "-> ../../../root/.bashrc"},
			found: []string{"d/Chart.lock:1:1: error: symbolic link cannot be followed: it leads out of the repository [outside]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, asked := fetchAll(t, c.tree, c.have)
			if diff := cmp.Diff(c.want, names(r.Bundle)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			var found []string
			for _, f := range r.Findings {
				f.Column = 0
				found = append(found, f.String())
			}
			want := slices.Clone(c.found)
			for i, f := range want { // columns are not known for Chart.yaml
				parts := strings.SplitN(f, ":", 4)
				want[i] = parts[0] + ":" + parts[1] + ":1:" + parts[3]
			}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
			if want := slices.Collect(maps.Keys(c.have)); len(want) != len(asked) {
				t.Errorf("asked for %v", asked)
			}
		})
	}
}

// What stands in charts/ is there again the same the next time, byte for byte,
// and a lock that says the same as ours stays as it is.
func TestDependenciesAreStable(t *testing.T) {
	tree := map[string]string{
		"d/Chart.yaml":   "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n- {name: lib, version: 0.x, repository: 'file://../lib'}\n",
		"lib/Chart.yaml": "apiVersion: v2\nname: lib\nversion: 0.1.0\n", "lib/templates/a.yaml": "{{ }}", "lib/templates/.swp": "x",
	}
	first, _ := fetchAll(t, tree, nil)
	second, _ := fetchAll(t, tree, nil)
	if diff := cmp.Diff(first.Bundle, second.Bundle); diff != "" || first.Bundle == nil {
		t.Fatalf("%v\n%s", texts(first.Findings), diff)
	}
	if a := first.Bundle.Spec.Resources[2]; a.Name != "charts/lib-0.1.0.tgz" || a.Encoding != "base64+gz" {
		t.Errorf("%s %s", a.Name, a.Encoding)
	}
	data, err := content.ResourceBytes(first.Bundle.Spec.Resources[2])
	if err != nil {
		t.Fatal(err)
	}
	if got := archived(t, data); !slices.Equal(got, []string{"lib/Chart.yaml", "lib/templates/a.yaml"}) {
		t.Errorf("the archive has %v", got)
	}
	var l lock
	if err := sigyaml.Unmarshal([]byte(first.Bundle.Spec.Resources[0].Content), &l); err != nil {
		t.Fatal(err)
	}
	kept := "# kept\ndigest: " + l.Digest + "\ngenerated: \"2020-01-01T00:00:00Z\"\n"
	tree["d/Chart.lock"] = kept
	third, _ := fetchAll(t, tree, nil)
	if third.Bundle == nil || third.Bundle.Spec.Resources[0].Content != kept {
		t.Errorf("the lock was replaced")
	}
}
