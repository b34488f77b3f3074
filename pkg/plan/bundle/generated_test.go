package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/test/raced"
)

// A world is a repository and what servers have for it.
type world struct {
	texts   map[string]string
	server  string // version of everything on the servers; "down": none answers
	commit  int
	paths   []string
	entries []fleet.BundlePath
	options func(*Options)
	// credentials are those of the servers, and password what is sent: with
	// another one a server refuses.
	credentials, password string
}

// An edit changes a world; text says how.
type edit struct {
	text  string
	apply func(*world)
}

// memory holds the results that a reader keeps between two readings.
type memory struct {
	d       Discovery
	results map[Dir]Result
}

// read makes the bundles of a world, with what is remembered if m is not nil,
// as a reader does it. It reports how many results were taken over.
func (w *world) read(m *memory) (Set, int) {
	tree := newHashed(files(w.texts))
	o := Options{Repo: "repo", Namespace: "ns", ImageScans: true, Labels: map[string]string{fleet.LabelCommit: fmt.Sprintf("%040d", w.commit), "team": "a"}}
	if w.options != nil {
		w.options(&o)
	}
	o.Fetched = map[chart.Request]chart.Fetched{}
	if m == nil {
		m = &memory{}
	}
	dirs, found := m.d.Dirs(tree, w.paths, w.entries)
	for _, dir := range dirs {
		for _, r := range m.results[dir].Inputs.Requests() {
			o.Fetched[r] = w.fetch(r)
		}
	}
	c := Compare(tree, o)
	results, taken := map[Dir]Result{}, 0
	var list []Result
	for _, dir := range dirs {
		r, ok := c.Reuse(m.results[dir])
		if ok {
			taken++
		}
		for rounds := 0; !ok; rounds++ {
			r = Assemble(tree, dir, o)
			if ok = len(r.Missing) == 0; rounds > 10 {
				panic("always something missing")
			}
			for _, request := range r.Missing {
				o.Fetched[request] = w.fetch(request)
			}
		}
		results[dir] = r
		list = append(list, r)
	}
	m.results = results
	return NewSet(list, found), taken
}

// fetch returns the servers' answer to a request: a chart that may itself have
// a dependency.
func (w *world) fetch(r chart.Request) chart.Fetched {
	name := r.Chart
	if name == "" {
		name = path.Base(r.Repo)
	}
	switch {
	case w.server == "down":
		return chart.Fetched{Err: reconcile.RequeueError("Unreachable", time.Minute, errors.New("no answer"))}
	case w.credentials != w.password:
		return chart.Fetched{Err: reconcile.TerminalError("AuthenticationRefused", errors.New("the server refuses the credentials"))}
	case strings.Contains(name, "gone"):
		return chart.Fetched{Err: reconcile.TerminalError("NotFound", errors.New("there is no such chart"))}
	}
	meta := fmt.Sprintf("name: %s\nversion: 1.0.%s\n", name, w.server)
	if r.Archive {
		data, err := packChart(name, []file{{name: chartFile, data: []byte(meta)}}, 1<<20)
		if err != nil {
			panic(err)
		}
		return chart.Fetched{Archive: data, Name: name, Version: "1.0." + w.server}
	}
	if strings.Contains(name, "nested") {
		meta += "dependencies:\n- {name: inner, version: 1.x, repository: https://inner.example}\n"
	}
	texts := map[string]string{name + "/Chart.yaml": meta, name + "/templates/a.yaml": "{{ }}", name + "/.fleetignore": "*.md\n", name + "/x.md": "x", name + "/values.yaml": "a: 1"}
	return chart.Fetched{Files: files(texts), Version: "1.0." + w.server, Digest: name + w.server}
}

// print is all that a set says, for comparing.
func (s Set) print() string {
	var out strings.Builder
	for _, r := range s.Results {
		fmt.Fprintf(&out, "%s %q name=%s empty=%v retry=%v missing=%v\n", r.Dir.Path, r.Dir.Options, r.Name, r.Empty, r.Retry, r.Missing)
		raw, err := json.Marshal([]any{r.Bundle, r.Scans})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&out, "%s\n", raw)
		for _, f := range r.Findings {
			fmt.Fprintf(&out, "  %s (%s)\n", f, f.Hint)
		}
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&out, "%s\n", f)
	}
	return out.String()
}

var (
	someDirs  = []string{".", "a", "a/b", "a/b/c", "lib", "d", "d/charts/sub", ".h", "e"}
	someFiles = []string{"cm.yaml", "x.txt", "values.yaml", "kustomization.yaml", "fleet.yaml", "fleet.yml", ".fleetignore", "Chart.yaml", "link", "dir", ".helmignore", "Chart.lock", "prod.yaml"}
)

// content is a random text for a file of a name.
func someText(r *rand.Rand, base string) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	n := strconv.Itoa(r.IntN(3))
	switch base {
	case "fleet.yaml", "fleet.yml", "prod.yaml":
		return pick("", "namespace: n"+n+"\n", "name: named"+n+"\n", "helm: {chart: ., valuesFiles: [../lib/values.yaml, values.yaml]}\n",
			"helm: {chart: ., valuesFiles: [link]}\n", "helm: {chart: web, repo: https://charts.example, version: 1.x}\n",
			"helm: {chart: gone, repo: https://charts.example}\n", "helm: {repo: 'oci://r.example/nested'}\n", "helm: {chart: ../lib}\n",
			"helm: {repo: https://charts.example, chart: web}\ntargetCustomizations:\n- {name: t, clusterName: c, helm: {version: 2.x, valuesFiles: [../a/values.yaml]}}\n",
			"kustomize: {dir: a}\n", "helm: {disableDependencyUpdate: true}\n", "imageScans:\n- {image: i, tagName: t}\n", "helm: [\n", "labels: {x: y"+n+"}\n")
	case ".fleetignore":
		return pick("*.txt\n", "cm.yaml\n", "b/*\n", "[a\n", "", "charts/*\n")
	case ".helmignore":
		return pick("*.txt\n", "charts/\n", "")
	case "Chart.yaml":
		return "apiVersion: v2\nname: c" + n + "\nversion: 1.0." + n + "\n" + pick("", "dependencies:\n- {name: dep, version: 1.x, repository: https://dep.example}\n",
			"dependencies:\n- {name: c"+n+", version: 1.x, repository: file://../lib}\n", "dependencies:\n- {name: sub, version: '>0', repository: ''}\n",
			"dependencies:\n- {name: gone, version: 1.x, repository: 'oci://r.example'}\n")
	case "kustomization.yaml":
		return pick("resources: [cm.yaml]\n", "resources: [../lib]\n", "resources: [dir]\n", "{}\n")
	case "link":
		return "-> " + pick("cm.yaml", "../lib/values.yaml", "../../x", "/etc/passwd", "link", "nothing")
	case "dir":
		return "-> " + pick("b", "../lib", ".", "../a", "dir")
	case "cm.yaml":
		return pick(configMap, configMap+"data: {x: '"+n+"'}\n", "a: [\n")
	case "Chart.lock":
		return pick("digest: x\n", "digest: [\n")
	}
	return pick("a: 1\n", "a: {b: "+n+"}\n", "b: null\n", "")
}

// someEdit is a random edit of a world that looks like w.
func someEdit(r *rand.Rand, w *world) edit {
	dir, base := someDirs[r.IntN(len(someDirs))], someFiles[r.IntN(len(someFiles))]
	p := path.Join(dir, base)
	existing := slices.Sorted(maps.Keys(w.texts))
	switch k := r.IntN(23); {
	case k < 11:
		text := someText(r, base)
		return edit{fmt.Sprintf("write %s: %q", p, text), func(w *world) { w.write(p, text) }}
	case k < 14 && len(existing) > 0:
		p := existing[r.IntN(len(existing))]
		return edit{"remove " + p, func(w *world) { delete(w.texts, p) }}
	case k < 15:
		return edit{"remove all of " + dir, func(w *world) { w.remove(dir) }}
	case k < 16:
		to := someDirs[r.IntN(len(someDirs))]
		return edit{"link " + dir + " to " + to, func(w *world) {
			if dir != "." {
				w.remove(dir)
				up := strings.Repeat("../", strings.Count(dir, "/"))
				w.write(dir, "-> "+up+to)
			}
		}}
	case k < 18:
		v := []string{"0", "1", "down"}[r.IntN(3)]
		return edit{"servers: " + v, func(w *world) { w.server = v }}
	case k < 19:
		list := [][]fleet.BundlePath{
			nil, nil, {{Base: "a"}, {Base: "a", Options: "prod.yaml"}, {Base: "/a/b"}}, {{Base: ".", Options: "d/prod.yaml"}, {Base: "lib", Options: "../a/prod.yaml"}},
			{{Base: "dir", Options: "link"}, {Base: "a/dir"}, {Base: "d/charts/sub", Options: "values.yaml"}},
		}[r.IntN(5)]
		return edit{fmt.Sprintf("bundles: %v", list), func(w *world) { w.entries = list }}
	case k < 20:
		password := []string{"", "", "wrong"}[r.IntN(3)]
		return edit{"password: " + password, func(w *world) { w.password = password }}
	case k < 22:
		paths := [][]string{nil, {"a", "d", "s"}, {"*"}, {"a/*", "lib", "e", "s/*"}}[r.IntN(4)]
		return edit{fmt.Sprintf("paths: %v", paths), func(w *world) { w.paths = paths }}
	}
	n := r.IntN(3)
	return edit{fmt.Sprintf("options: %d", n), func(w *world) {
		w.options = func(o *Options) { o.Paused = n == 1; o.TargetNamespace = []string{"", "", "forced"}[n] }
	}}
}

func (w *world) remove(dir string) {
	for p := range w.texts {
		if isWithin(dir, p) {
			delete(w.texts, p)
		}
	}
}

// write makes a file, and makes room for it.
func (w *world) write(p, text string) {
	w.remove(p)
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		delete(w.texts, dir)
	}
	w.texts[p] = text
}

// newWorld begins with some bundles that edits do not reach, but by what these
// need from elsewhere.
func newWorld() *world {
	return &world{server: "0", texts: map[string]string{
		"s/remote/Chart.yaml":  "apiVersion: v2\nname: r\nversion: 1.0.0\ndependencies:\n- {name: dep, version: 1.x, repository: https://dep.example}\n",
		"s/chart/fleet.yaml":   "helm: {repo: https://charts.example, chart: nested, version: 1.x}\n",
		"s/values/fleet.yaml":  "helm: {repo: https://charts.example, chart: web, valuesFiles: [../../lib/values.yaml, ../../e/values.yaml]}\n",
		"s/packed/Chart.yaml":  "apiVersion: v2\nname: p\nversion: 1.0.0\ndependencies:\n- {name: c0, version: 1.x, repository: file://../../lib}\n",
		"s/linked/fleet.yaml":  "-> ../../e/prod.yaml",
		"s/linked/cm.yaml":     configMap,
		"s/through/fleet.yaml": "helm: {chart: ., valuesFiles: [../../a/dir/values.yaml]}\n",
		"s/through/Chart.yaml": "name: t\nversion: 1.0.0\n",
	}}
}

// play does edits one after the other and says at which the incremental reading
// differs from one from nothing, and how; -1: never.
func play(edits []edit) (at int, want, got string, taken int) {
	w, m := newWorld(), &memory{}
	for i, e := range edits {
		e.apply(w)
		w.commit++
		again, n := w.read(m)
		fresh, _ := w.read(nil)
		taken += n
		if want, got = fresh.print(), again.print(); want != got {
			return i, want, got, taken
		}
	}
	return -1, "", "", taken
}

// shrink leaves out all edits without which a difference stays.
func shrink(edits []edit) []edit {
	for changed := true; changed; {
		changed = false
		for i := 0; i < len(edits); i++ {
			less := slices.Delete(slices.Clone(edits), i, i+1)
			if at, _, _, _ := play(less); at >= 0 {
				edits, changed = less[:at+1], true
				i--
			}
		}
	}
	return edits
}

// Reading with what is remembered gives byte for byte what reading from nothing
// gives, whatever changes. FLEET_TEST_SEED sets one seed to try.
func TestIncrementalEqualsFresh(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	if s := os.Getenv("FLEET_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{n}
	}
	if raced.Enabled {
		seeds = seeds[:1]
	}
	all := 0
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, seed))
		w := newWorld()
		var edits []edit
		for range 150 {
			e := someEdit(r, w)
			e.apply(w)
			edits = append(edits, e)
		}
		at, _, _, taken := play(edits)
		all += taken
		if at < 0 {
			continue
		}
		edits = shrink(edits[:at+1])
		_, want, got, _ := play(edits)
		for i, e := range edits {
			t.Logf("%d. %s", i+1, e.text)
		}
		t.Fatalf("seed %d: after these edits the incremental reading differs\nfrom nothing:\n%s\nincremental:\n%s", seed, want, got)
	}
	if len(seeds) > 1 && all < 1000 {
		t.Errorf("only %d results were taken over: the test proves nothing", all)
	}
}
