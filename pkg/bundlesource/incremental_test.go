package bundlesource_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// counted is a tree that notes which files and directories are read.
type counted struct {
	*git.Tree
	mu    sync.Mutex
	files map[string]int
	dirs  map[string]int
}

func count(t *git.Tree) *counted {
	return &counted{Tree: t, files: map[string]int{}, dirs: map[string]int{}}
}

func (c *counted) note(m map[string]int, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m[name]++
}

func (c *counted) Open(name string) (fs.File, error) {
	c.note(c.files, name)
	return c.Tree.Open(name)
}

func (c *counted) ReadFile(name string) ([]byte, error) {
	c.note(c.files, name)
	return c.Tree.ReadFile(name)
}

func (c *counted) ReadDir(name string) ([]fs.DirEntry, error) {
	c.note(c.dirs, name)
	return c.Tree.ReadDir(name)
}

// repository is a git repository with a server, read again and again.
type repository struct {
	*gittest.Repo
	t       *testing.T
	url     string
	remotes *git.Remotes
}

func newRepository(t *testing.T) *repository {
	r := &repository{Repo: gittest.NewRepo(t), t: t, remotes: newRemotes(t)}
	r.url = gittest.ServeHTTP(t, filepath.Dir(r.Dir)).URL + "/repo"
	return r
}

// tree commits and fetches the work tree.
func (r *repository) tree(message string) *counted {
	r.t.Helper()
	tree, err := r.remotes.Fetch(r.t.Context(), git.Source{URL: r.url}, git.Reference{Branch: "main"}, git.Commit(r.Commit(message, nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = tree.Close() })
	return count(tree)
}

// A commit that touches one of many directories reads that one, and opens
// nothing else.
func TestOneOfMany(t *testing.T) {
	repo := newRepository(t)
	files := map[string]string{}
	const many = 200
	for i := range many {
		dir := fmt.Sprintf("team-%d/app-%03d/", i%7, i)
		files[dir+"fleet.yaml"] = "namespace: x\n"
		files[dir+"cm.yaml"] = fmt.Sprintf("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x%d}\n", i)
	}
	repo.Write(files)
	r := newReader(t, nil)
	first := repo.tree("first")
	in := bundlesource.Input{Tree: first, Options: bundle.Options{Repo: "repo"}}
	set, memory, err := r.Read(t.Context(), in)
	if err != nil || len(set.Results) != many || len(first.files) < many {
		t.Fatalf("want %d bundles read from their files, got %d from %d, %v", many, len(set.Results), len(first.files), err)
	}
	repo.Write(map[string]string{"team-3/app-010/cm.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: other}\n"})
	second := repo.tree("second")
	in.Tree, in.Previous = second, memory
	set, memory, err = r.Read(t.Context(), in)
	if err != nil || len(set.Results) != many {
		t.Fatal(len(set.Results), err)
	}
	for name := range second.files {
		if !strings.HasPrefix(name, "team-3/app-010/") {
			t.Errorf("%s was read", name)
		}
	}
	for name := range second.dirs {
		if !slices.Contains([]string{".", "team-3", "team-3/app-010"}, name) {
			t.Errorf("directory %s was read", name)
		}
	}
	third := repo.tree("nothing")
	in.Tree, in.Previous = third, memory
	if _, memory, err = r.Read(t.Context(), in); err != nil || len(third.files)+len(third.dirs) > 0 {
		t.Errorf("want nothing read for an empty commit, got %v, %v, %v", third.files, third.dirs, err)
	}

	// Other options are read from nothing, other paths and credentials too.
	for what, change := range map[string]func(*bundlesource.Input){
		"options":     func(in *bundlesource.Input) { in.Options.ServiceAccount = "other" },
		"credentials": func(in *bundlesource.Input) { in.Access.URLs = ".*" },
		"paths":       func(in *bundlesource.Input) { in.Paths = []string{"team-*"} },
	} {
		again := count(third.Tree)
		other := in
		other.Tree, other.Previous = again, memory
		change(&other)
		if _, _, err := r.Read(t.Context(), other); err != nil || len(again.files) < many {
			t.Errorf("%s: want all read again, got %d files, %v", what, len(again.files), err)
		}
		in.Tree, in.Previous = count(third.Tree), nil
		if _, memory, err = r.Read(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// What is remembered is bounded, and reading goes on without it.
func TestMemoryIsBounded(t *testing.T) {
	repo := newRepository(t)
	for i := range 20 {
		repo.Write(map[string]string{fmt.Sprintf("app-%02d/cm.yaml", i): "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {a: " + strings.Repeat("x", 20<<10) + "}\n"})
	}
	r := newReader(t, func(c *bundlesource.Config) { c.Limits.MemoryBytes = 250 << 10 }) // ten bundles
	in := bundlesource.Input{Paths: []string{"*"}, Options: bundle.Options{Repo: "repo"}}
	first := repo.tree("first")
	in.Tree = first
	set, memory, err := r.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	second := repo.tree("second")
	in.Tree, in.Previous = second, memory
	again, memory, err := r.Read(t.Context(), in)
	if err != nil || len(second.files) == 0 || len(second.files) >= len(first.files) {
		t.Errorf("want some read again and some not, got %d of %d, %v", len(second.files), len(first.files), err)
	}
	if diff := cmp.Diff(said(t, set), said(t, again)); diff != "" {
		t.Errorf("want the same\n%s", diff)
	}
	// Another repository takes the room of what was not used for longest.
	in.Previous = nil
	in.Tree = count(second.Tree)
	if _, _, err := r.Read(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	third := count(second.Tree)
	in.Tree, in.Previous = third, memory
	if _, _, err := r.Read(t.Context(), in); err != nil || len(third.files) != len(first.files) {
		t.Errorf("want all read again, got %d of %d, %v", len(third.files), len(first.files), err)
	}
}

// said is all that a reading says, as text.
func said(t *testing.T, set bundle.Set) []string {
	t.Helper()
	var list []string
	for _, r := range set.Results {
		raw, err := json.Marshal(r.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		scans, err := json.Marshal(r.Scans)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%v %s %v retry=%v empty=%v %s %s", r.Dir, r.Name, r.Findings, r.Retry, r.Empty, raw, scans))
	}
	return append(list, fmt.Sprint(set.Findings))
}

// A random repository with random changes, read with memory and from nothing:
// both say the same, byte for byte.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newWorld(t, seed).play(20)
		})
	}
}

// world is a random repository, a Helm repository that it uses, and the
// credentials for that.
type world struct {
	*repository
	random   *rand.Rand
	helm     *webtest.Server
	versions int
	password string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{repository: newRepository(t), random: rand.New(rand.NewPCG(seed, 7)), password: "right", versions: 1} //nolint:gosec // repeatable
	w.helm = webtest.Repository(t, webtest.Options{Charts: w.charts(), Username: "robot", Password: "right"})
	for range 12 {
		w.edit()
	}
	return w
}

// charts returns the present charts of the Helm repository.
func (w *world) charts() []webtest.Chart {
	var list []webtest.Chart
	for i := range w.versions {
		list = append(list, webtest.Chart{Name: "demo", Version: fmt.Sprintf("1.%d.0", i)}, webtest.Chart{Name: "dep", Version: fmt.Sprintf("2.%d.0", i)})
	}
	return list
}

// publish adds a version to the Helm repository.
func (w *world) publish() {
	w.versions++
	next := webtest.Repository(w.t, webtest.Options{Charts: w.charts()})
	for _, c := range w.charts() {
		file := "/archives/" + c.Name + "-" + c.Version + ".tgz"
		w.helm.Put(file, next.File(file))
	}
	w.helm.Put("/index.yaml", next.File("/index.yaml"))
}

func (w *world) pick(list ...string) string { return list[w.random.IntN(len(list))] }

// dir is one of few directories, some inside of others.
func (w *world) dir() string {
	dir := w.pick("a", "b", "c", "d")
	for w.random.IntN(3) == 0 {
		dir = path.Join(dir, w.pick("x", "y", "overlays", ".hidden"))
	}
	return dir
}

// options is a fleet.yaml.
func (w *world) options() string {
	return w.pick(
		"", "namespace: "+w.pick("one", "two")+"\n",
		"labels: {a: "+w.pick("b", "c")+"}\ndependsOn: [{name: x}]\n",
		"helm:\n  values: {n: "+w.pick("1", "2")+"}\n",
		"helm:\n  chart: .\n  valuesFiles: ["+w.pick("values.yaml", "../values.yaml", "../values.yaml", "overlays/values.yaml", "link.yaml")+"]\n",
		"helm:\n  repo: "+w.helm.URL+"\n  chart: demo\n  version: \""+w.pick("*", "^1", "1.0.0", ">=1.2")+"\"\n",
		"helm:\n  repo: "+w.helm.URL+"\n  chart: "+w.pick("demo", "none")+"\ntargetCustomizations:\n- name: t\n  clusterName: x\n  helm: {version: 1.0.0}\n",
		"name: "+w.pick("twin", "other")+"\n", "a:\n\tb", "nmespace: x\n",
	)
}

// edit makes one random change.
func (w *world) edit() {
	dir := w.dir()
	manifest := fmt.Sprintf("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata: {n: \"%d\"}\n", w.random.IntN(5))
	switch w.random.IntN(16) {
	case 14, 15: // values that stand outside of the bundle
		w.put(dir+"/fleet.yaml", "helm:\n  chart: .\n  valuesFiles: [../values.yaml]\n")
		w.put(dir+"/Chart.yaml", "apiVersion: v2\nname: local\nversion: 0.1.0\n")
		w.put(path.Dir(dir)+"/values.yaml", "v: "+w.pick("1", "2", "3")+"\n")
	case 0, 1, 2:
		w.put(dir+"/"+w.pick("cm.yaml", "b.yaml", "templates/t.yaml"), manifest)
	case 3, 4, 5:
		w.put(dir+"/fleet.yaml", w.options())
	case 6:
		w.put(w.pick(dir, path.Dir(dir))+"/"+w.pick("values.yaml", "values.yaml", "overlays/values.yaml"), "v: "+w.pick("1", "2", "[")+"\n")
	case 7:
		w.put(dir+"/Chart.yaml", "apiVersion: v2\nname: local\nversion: 0.1.0\n"+w.pick("", "dependencies: [{name: dep, version: \"*\", repository: \""+w.helm.URL+"\"}]\n", "dependencies: [{name: sib, version: 0.1.0, repository: \"file://../sib\"}]\n"))
	case 8:
		w.put(dir+"/.fleetignore", w.pick("b.yaml\n", "*.yaml\n", "overlays/*\n"))
	case 9:
		w.remove(dir)
	case 10:
		w.link(dir+"/link.yaml", w.pick("cm.yaml", "values.yaml", "../values.yaml", "/etc/passwd"))
	case 11:
		w.put(path.Dir(dir)+"/sib/Chart.yaml", "apiVersion: v2\nname: sib\nversion: 0.1."+w.pick("0", "1")+"\n")
	case 12:
		w.remove(dir + "/" + w.pick("cm.yaml", "fleet.yaml", "values.yaml", "Chart.yaml"))
	case 13:
		w.link(w.pick("a", "b")+"-link", w.pick("a", "b", "c/x"))
	}
}

func (w *world) put(name, text string) {
	w.t.Helper()
	at := filepath.Join(w.Dir, name)
	for p := filepath.Dir(at); len(p) > len(w.Dir); p = filepath.Dir(p) { // what is in the way
		if info, err := os.Lstat(p); err == nil && !info.IsDir() {
			_ = os.Remove(p)
		}
	}
	if info, err := os.Lstat(at); err == nil && info.Mode().Type() != 0 {
		_ = os.RemoveAll(at)
	}
	if text == "" {
		text = "{}\n"
	}
	w.Write(map[string]string{name: text})
}

func (w *world) remove(name string) { _ = os.RemoveAll(filepath.Join(w.Dir, name)) }

func (w *world) link(name, target string) {
	w.t.Helper()
	w.put(name, "x")
	at := filepath.Join(w.Dir, name)
	_ = os.Remove(at)
	if err := os.Symlink(target, at); err != nil {
		w.t.Fatal(err)
	}
}

// play makes changes and reads after each.
func (w *world) play(steps int) {
	w.t.Helper()
	remembering := newReader(w.t, nil)
	var memory *bundlesource.Memory
	for step := range steps {
		what := "edit"
		switch w.random.IntN(8) {
		case 0:
			what = "publish"
			w.publish()
		case 1:
			what = "credentials"
			w.password = w.pick("right", "right", "wrong")
		case 2:
			what = "nothing"
		default:
			for range 1 + w.random.IntN(3) {
				w.edit()
			}
		}
		tree := w.tree(what)
		in := bundlesource.Input{
			Tree: tree, Paths: []string{"*"},
			Options: bundle.Options{Repo: "repo", ImageScans: true, Labels: map[string]string{"fleet.cattle.io/commit": string(tree.Commit()), "x": "y"}},
			Access:  chart.Access{Default: chart.Credentials{Username: "robot", Password: w.password}, URLs: ".*"},
		}
		in.Previous = memory
		got, left, err := remembering.Read(w.t.Context(), in)
		if err != nil {
			w.t.Fatal(err)
		}
		memory = left
		in.Previous, in.Tree = nil, tree.Tree
		want, _, err := newReader(w.t, nil).Read(w.t.Context(), in)
		if err != nil {
			w.t.Fatal(err)
		}
		if diff := cmp.Diff(said(w.t, want), said(w.t, got)); diff != "" {
			w.t.Fatalf("step %d (%s): reading with memory says something else\n-from nothing +with memory\n%s", step, what, diff)
		}
	}
}
