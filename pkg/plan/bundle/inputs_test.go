package bundle

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A reader must not hash what it does not look at: each of these changes
// something that a result depends on in a way that is easy to miss.
func TestInputsNotice(t *testing.T) {
	base := map[string]string{
		"d/fleet.yaml": "helm: {chart: ., valuesFiles: [../lib/values.yaml, ../lib/link]}\n", "d/Chart.yaml": "name: c\nversion: 1.0.0\n",
		"lib/values.yaml": "a: 1\n", "lib/link": "-> other.yaml", "lib/other.yaml": "b: 1\n", "e/cm.yaml": configMap, "deep/d/cm.yaml": configMap,
	}
	cases := map[string]struct {
		why   string
		dir   string
		edit  map[string]string
		reuse bool
	}{
		"Nothing":     {dir: "d", reuse: true},
		"Elsewhere":   {why: "a neighbour is no input", dir: "d", edit: map[string]string{"e/cm.yaml": "x: y", "lib/more.yaml": "x"}, reuse: true},
		"Values":      {dir: "d", edit: map[string]string{"lib/values.yaml": "a: 2\n"}},
		"Link":        {why: "what the link says", dir: "d", edit: map[string]string{"lib/link": "-> values.yaml"}},
		"LinkGoal":    {why: "what it leads to", dir: "d", edit: map[string]string{"lib/other.yaml": "b: 2\n"}},
		"KindOfFile":  {why: "a file with the text of the link", dir: "d", edit: map[string]string{"lib/link": "other.yaml"}},
		"ParentIsNow": {why: "a link on the way to the directory", dir: "deep/d", edit: map[string]string{"deep/d/cm.yaml": "", "deep": "-> e2", "e2/d/cm.yaml": configMap}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(newHashed(files(base)), Dir{Path: c.dir}, Options{Repo: "repo"})
			if r.Bundle == nil {
				t.Fatal(texts(r.Findings))
			}
			w := &world{texts: maps.Clone(base)}
			for p, text := range c.edit {
				if delete(w.texts, p); text != "" {
					w.write(p, text)
				}
			}
			if _, ok := Compare(newHashed(files(w.texts)), Options{Repo: "repo"}).Reuse(r); ok != c.reuse {
				t.Errorf("%s: reused %v", c.why, ok)
			}
			again := Assemble(newHashed(files(w.texts)), Dir{Path: c.dir}, Options{Repo: "repo", Paused: true})
			if ok := r.Inputs.SameSource(again.Inputs); ok != c.reuse {
				t.Errorf("%s: the same source with other options: %v", c.why, ok)
			}
		})
	}
}

// A tree without hashes, and a chart without a digest, are never taken over.
func TestNoHashNoReuse(t *testing.T) {
	tree := files(map[string]string{"d/cm.yaml": configMap})
	if _, ok := Compare(tree, Options{}).Reuse(Assemble(tree, Dir{Path: "d"}, Options{})); ok {
		t.Error("a tree without a version counts as unchanged")
	}
	h := newHashed(files(map[string]string{"d/fleet.yaml": "helm: {repo: https://r.example, chart: web}"}))
	o := Options{Fetched: map[chart.Request]chart.Fetched{{Repo: "https://r.example", Chart: "web"}: {Files: files(map[string]string{"web/Chart.yaml": "name: web"})}}}
	r := Assemble(h, Dir{Path: "d"}, o)
	if r.Bundle == nil {
		t.Fatal(texts(r.Findings))
	}
	if _, ok := Compare(h, o).Reuse(r); ok {
		t.Error("a chart without a digest counts as unchanged")
	}
	if _, ok := Compare(h, Options{}).Reuse(Assemble(h, Dir{Path: "d"}, Options{})); ok {
		t.Error("a result that waits for a chart was taken for finished")
	}
}

// Whatever is different about what came in is noticed.
func TestFetchedIsNoticed(t *testing.T) {
	gone := errors.New("gone")
	base := chart.Fetched{Name: "n", Version: "1", Digest: "d"}
	archive := chart.Fetched{Name: "n", Version: "1", Archive: []byte("x")}
	wait, permanent := chart.Fetched{Err: reconcile.RequeueError("X", 0, gone)}, chart.Fetched{Err: reconcile.TerminalError("X", gone)}
	all := map[string]chart.Fetched{
		"Base": base, "Archive": archive, "Wait": wait, "Permanent": permanent, "OtherError": {Err: errors.New("other")},
		"Name": {Name: "m", Version: "1", Digest: "d"}, "Version": {Name: "n", Version: "2", Digest: "d"}, "Digest": {Name: "n", Version: "1", Digest: "e"},
		"ArchiveName": {Name: "m", Version: "1", Archive: []byte("x")}, "ArchiveVersion": {Name: "n", Version: "2", Archive: []byte("x")},
		"ArchiveBytes": {Name: "n", Version: "1", Archive: []byte("y")},
	}
	seen := map[string]string{}
	for name, f := range all {
		digest, known := fetchedDigest(f)
		if other, twice := seen[digest]; twice || !known {
			t.Errorf("%s is taken for %s, known %v", name, other, known)
		}
		seen[digest] = name
	}
}

// What a directory's hash does not cover is looked at again: what links lead to.
func TestDiscoveryNotices(t *testing.T) {
	cases := map[string]struct {
		why           string
		before, after map[string]string
		path          string
		want          []string
	}{
		"LinkToDirectory": {
			why: "the path is a link, and what it leads to became a bundle", path: "link", want: []string{"link", "link/sub"},
			before: map[string]string{"link": "-> goal", "goal/sub/x.txt": "x"}, after: map[string]string{"goal/sub/fleet.yaml": "", "goal/cm.yaml": configMap},
		},
		"LinkToOptions": {
			why: "fleet.yaml is a link to what was not there", path: "d", want: []string{"d", "d/sub"},
			before: map[string]string{"d/cm.yaml": configMap, "d/sub/fleet.yaml": "-> ../../goal.yaml"}, after: map[string]string{"goal.yaml": "namespace: x\n"},
		},
		"LinkToOptionsGone": {
			why: "and to what was", path: "d", want: []string{"d"},
			before: map[string]string{"d/cm.yaml": configMap, "d/1/2/fleet.yaml": "-> ../../../goal.yaml", "goal.yaml": "{}"}, after: map[string]string{"goal.yaml": ""},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var d Discovery
			d.Dirs(newHashed(files(c.before)), []string{c.path}, nil)
			w := &world{texts: maps.Clone(c.before)}
			for p, text := range c.after {
				if delete(w.texts, p); text != "" || path.Base(p) == "fleet.yaml" {
					w.write(p, text)
				}
			}
			dirs, _ := d.Dirs(newHashed(files(w.texts)), []string{c.path}, nil)
			var got []string
			for _, dir := range dirs {
				got = append(got, dir.Path)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: want %v, got %v", c.why, c.want, got)
			}
		})
	}
}

// Discovery reads only what changed.
func TestDiscoveryReadsLittle(t *testing.T) {
	texts := map[string]string{}
	for i := range 50 {
		texts[fmt.Sprintf("apps/%d/fleet.yaml", i)] = ""
	}
	var d Discovery
	d.Dirs(newHashed(files(texts)), nil, nil)
	texts["apps/7/cm.yaml"] = configMap
	again := newHashed(files(texts))
	dirs, _ := d.Dirs(again, nil, nil)
	if len(dirs) != 50 || len(again.dirs) != 3 {
		t.Errorf("found %d directories by reading %v", len(dirs), again.dirs)
	}
}
