package bundle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// A small tree in which there is no end of ways to go is refused after few of
// them, or its way is gone once.
func TestEndless(t *testing.T) {
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	links := map[string]string{"d/cm.yaml": configMap, "d/30/.keep": ""}
	inChart := map[string]string{"x/Chart.yaml": chartYAML("x"), "d/Chart.yaml": chartYAML("d", "file://../x")}
	for i := range 30 {
		for _, name := range []string{"a", "b"} {
			links[fmt.Sprintf("d/%d/%s", i, name)] = fmt.Sprintf("-> ../%d", i+1)
			inChart[fmt.Sprintf("x/%d/%s", i, name)] = fmt.Sprintf("-> ../%d", i+1)
		}
	}
	inChart["x/30/.keep"] = ""
	needs, chain, many := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range 19 {
		next := fmt.Sprintf("file://../c%d", i+1)
		needs[fmt.Sprintf("d/c%d/Chart.yaml", i)] = chartYAML(fmt.Sprintf("c%d", i), next, next, next, next)
	}
	needs["d/c19/Chart.yaml"] = chartYAML("c19")
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		unused = append(unused, unusedChart("d", path.Base(path.Dir(name))))
	}
	for i := range 250 {
		chain[fmt.Sprintf("c%d/Chart.yaml", i)] = chartYAML(fmt.Sprintf("c%d", i), fmt.Sprintf("file://../c%d", i+1))
	}
	chain["c250/Chart.yaml"] = chartYAML("c250")
	chain["d/Chart.yaml"] = chartYAML("d", "file://../c0")
	var all []string
	for i := range 20 {
		name := fmt.Sprintf("c%d", i)
		many[name+"/Chart.yaml"], many[name+"/noise"] = chartYAML(name), string(noise)
		all = append(all, "file://../"+name)
	}
	many["d/Chart.yaml"] = chartYAML("d", all...)

	named := func(list string) string { return "helm: {chart: ., valuesFiles: [" + list + "]}" }
	values := map[string]string{
		"d/fleet.yaml": named(strings.Repeat("v,", 1000)), "d/Chart.yaml": chartYAML("d"), "d/v": "a: 1 # " + strings.Repeat("x", 1<<20) + "\n",
	}
	dense := map[string]string{
		"d/fleet.yaml": named(strings.Repeat("v,", 1000)), "d/Chart.yaml": chartYAML("d"), "d/v": "a: [" + strings.Repeat("1,", 200_000) + "]\n",
	}
	folded := map[string]string{
		"d/fleet.yaml": named(strings.Repeat("v,", 1000)), "d/Chart.yaml": chartYAML("d"),
		"d/v": "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
	}
	small := map[string]string{"d/fleet.yaml": named(strings.Repeat("v,", 10_000)), "d/Chart.yaml": chartYAML("d"), "d/v": "a: 1\n"}
	var charts strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&charts, "- {clusterName: c, helm: {repo: 'https://r.example', chart: c%d}}\n", i)
	}
	remote := map[string]string{"d/fleet.yaml": "targetCustomizations:\n" + charts.String()}
	locks := map[string]string{"d/cm.yaml": configMap, "d/.fleetignore": "c*\n", "lib/Chart.yaml": chartYAML("n0")}
	for i := range 60 {
		locks[fmt.Sprintf("d/x%d/Chart.yaml", i)] = chartYAML("x", "file://../../lib")
	}

	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
		dirs  int // that may be read
		bytes int // that may be read
	}{
		"Links":        {"each directory leads to the next one twice", links, []string{"d:1:1: error: the bundle has more than 100 directories, counted once for each link to them [too-large]"}, 250, 1000},
		"LinksInChart": {"the same in a chart that is packaged", inChart, []string{`d/Chart.yaml:7:1: error: dependency "n0": x cannot be packaged: it is too large [too-large]`}, 250, 10_000},
		"Needs":        {"each chart depends on the next one four times", needs, unused, 1000, 1 << 20},
		"Chain":        {"one depends on more charts than anybody has", chain, []string{`d/Chart.yaml:7:1: error: dependency "n0": c0 depends on more than 200 other charts of the repository [chart]`}, 100, 1 << 20},
		"Packages": {"the archives would not fit into what can be stored", many, []string{
			`d/Chart.yaml:10:1: error: dependency "n3": c3 cannot be packaged: it is too large [too-large]`,
		}, 200, 5 << 20},
		"Values": {"one file of values is named a thousand times", values, []string{
			`d/fleet.yaml:1:62: error: values file "v" is one too many: the bundle's values files have more than 16 MiB, each counted as often as it is named [too-large]`,
		}, 10, 18 << 20},
		"DenseValues": {"the same with few bytes for each value", dense, []string{
			`d/fleet.yaml:1:36: error: values file "v" is one too many: the bundle's values files have more than 500000 values, each file counted as often as it is named [too-large]`,
		}, 10, 2 << 20},
		"FoldedValues": {"and with aliases", folded, []string{
			`d/fleet.yaml:1:34: error: values file "v" is one too many: the bundle's values files have more than 16 MiB, each counted as often as it is named [too-large]`,
		}, 10, 1 << 20},
		"SmallValues": {"and with next to none", small, []string{
			`d/fleet.yaml:1:10032: error: values file "v" is one too many: the bundle names values files more than 5000 times [too-large]`,
		}, 10, 1 << 20},
		"Charts": {"each target has a chart of its own to be downloaded", remote, []string{
			`d/fleet.yaml:1:1: error: the bundle needs more than 500 charts and dependencies from elsewhere [too-large]`,
		}, 10, 1 << 20},
		"Made": {"files that dependencies add, and that are ignored, are files too", locks, []string{
			`d:1:1: error: the bundle's charts have more than 100 dependencies together [too-large]`,
		}, 400, 1 << 20},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree := newHashed(files(c.tree))
			result := Assemble(tree, Dir{Path: "d"}, Options{Repo: "repo", Limits: Limits{Files: 100, StoredBytes: 3<<20 + 1<<19}})
			if diff := cmp.Diff(c.found, texts(result.Findings)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if len(result.Missing) > 0 {
				t.Errorf("%s: asks for %d charts", c.why, len(result.Missing))
			}
			dirs := 0
			for _, n := range tree.dirs {
				dirs += n
			}
			if bytes := tree.total(""); dirs > c.dirs || bytes > c.bytes {
				t.Errorf("%s: %d directories and %d bytes were read", c.why, dirs, bytes)
			}
		})
	}
}

// Patterns and links that match more than there is are given up, with an error,
// after few directories; what other paths find is not lost to that.
func TestEndlessPaths(t *testing.T) {
	tree := map[string]string{"a/cm.yaml": configMap}
	for i := range 30 {
		tree[fmt.Sprintf("l%d", i)] = "-> ."
	}
	h := newHashed(files(tree))
	_, found := Discover(h, []string{"*/*/*/*/*/*/*/*/*"})
	want := []string{fmt.Sprintf("*/*/*/*/*/*/*/*/*:1:1: error: the paths match too much: there are more than %d files and directories where they may [too-large]", maxEntries)}
	if diff := cmp.Diff(want, texts(found)); diff != "" {
		t.Error(diff)
	}
	if n := h.dirs["."]; n > maxEntries/30+1 {
		t.Errorf("the root was listed %d times", n)
	}

	tree = map[string]string{"good/cm.yaml": configMap}
	for i := range 1000 {
		tree[fmt.Sprintf("big/%d/x.txt", i)] = "x"
		tree[fmt.Sprintf("l%d", i%300)] = "-> ."
	}
	dirs, found := Discover(newHashed(files(tree)), []string{"good", "l*/big"})
	if len(found) != 1 || found[0].Rule != finding.RuleTooLarge || !slices.ContainsFunc(dirs, func(d Dir) bool { return d.Path == "good" }) {
		t.Errorf("want one error, and the good directory: %v", texts(found))
	}
}

// What has more mistakes than anybody reads has a thousand of them, and breaks.
func TestManyMistakes(t *testing.T) {
	tree := map[string]string{
		"d/kustomization.yaml": "resources:\n" + strings.Repeat("- https://r.example/x\n", 2000) + strings.Repeat("- gone.yaml\n", 2000),
	}
	missing := map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [" + strings.Repeat("gone,", 5000) + "]}", "d/Chart.yaml": chartYAML("d")}
	for name, tree := range map[string]map[string]string{"Kustomization": tree, "Values": missing} {
		h := newHashed(files(tree))
		r := Assemble(h, Dir{Path: "d"}, Options{Repo: "repo"})
		if !r.Broken() || len(r.Findings) > maxFindings+3 || h.dirs["d"] > maxFindings+10 {
			t.Errorf("%s: broken %v, %d findings, %d times listed", name, r.Broken(), len(r.Findings), h.dirs["d"])
		}
	}
}

// chartYAML is a chart that depends on others.
func chartYAML(name string, repositories ...string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: v2\nname: %s\nversion: 1.0.0\n\n\ndependencies:\n", name)
	if len(repositories) == 0 {
		return strings.TrimSuffix(out.String(), "dependencies:\n")
	}
	for i, r := range repositories {
		fmt.Fprintf(&out, "- {name: n%d, version: '*', repository: '%s'}\n", i, r)
	}
	return out.String()
}
