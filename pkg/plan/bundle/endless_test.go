package bundle

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
		dirs  int // that may be read
		bytes int // that may be read
	}{
		"Links":        {"each directory leads to the next one twice", links, []string{"d:1:1: error: the bundle has more than 100 directories, counted once for each link to them [too-large]"}, 250, 1000},
		"LinksInChart": {"the same in a chart that is packaged", inChart, []string{`d/Chart.yaml:7:1: error: dependency "n0": x cannot be packaged: it is too large [too-large]`}, 250, 10_000},
		"Needs":        {"each chart depends on the next one four times", needs, nil, 1000, 1 << 20},
		"Chain":        {"one depends on more charts than anybody has", chain, []string{`d/Chart.yaml:7:1: error: dependency "n0": c0 depends on more than 200 other charts of the repository [chart]`}, 100, 1 << 20},
		"Packages": {"the archives would not fit into what can be stored", many, []string{
			`d/Chart.yaml:10:1: error: dependency "n3": c3 cannot be packaged: it is too large [too-large]`,
		}, 200, 5 << 20},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree := newHashed(files(c.tree))
			result := Assemble(tree, Dir{Path: "d"}, Options{Repo: "repo", Limits: Limits{Files: 100, StoredBytes: 3<<20 + 1<<19}})
			if diff := cmp.Diff(c.found, texts(result.Findings)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
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
