package bundle

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkRead reads 1,000 directories of 3 files from nothing, and again
// after one file changed. The second is to cost at most 5 % of the first. What
// it takes to get at the files is not part of it.
func BenchmarkRead(b *testing.B) {
	texts := map[string]string{}
	for i := range 1000 {
		dir := fmt.Sprintf("apps/%03d", i)
		texts[dir+"/fleet.yaml"] = fmt.Sprintf("namespace: app%d\nhelm: {releaseName: app-%d}\n", i, i)
		texts[dir+"/cm.yaml"] = configMap
		texts[dir+"/deployment.yaml"] = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n"
	}
	first := newHashed(files(texts))
	texts["apps/500/cm.yaml"] = configMap + "data: {x: y}\n"
	second := newHashed(files(texts))
	read := func(m *memory, tree *hashed) int {
		o := Options{Repo: "repo"}
		dirs, _ := m.d.Dirs(tree, nil, nil)
		c := Compare(tree, o)
		results, taken := map[Dir]Result{}, 0
		var list []Result
		for _, dir := range dirs {
			r, ok := c.Reuse(m.results[dir])
			if ok {
				taken++
			} else {
				r = Assemble(tree, dir, o)
			}
			results[dir] = r
			list = append(list, r)
		}
		m.results = results
		if set := NewSet(list, nil); len(set.Results) != 1000 || set.Empty() {
			b.Fatalf("%d results", len(set.Results))
		}
		return taken
	}
	var fresh, again time.Duration
	for b.Loop() {
		m := &memory{}
		start := time.Now()
		read(m, first)
		fresh += time.Since(start)
		start = time.Now()
		taken := read(m, second)
		again += time.Since(start)
		if taken != 999 {
			b.Fatalf("%d of 999 results were taken over", taken)
		}
	}
	b.ReportMetric(float64(fresh.Milliseconds())/float64(b.N), "ms-first")
	b.ReportMetric(float64(again.Microseconds())/1000/float64(b.N), "ms-again")
	b.ReportMetric(100*float64(again)/float64(fresh), "%-of-first")
}
