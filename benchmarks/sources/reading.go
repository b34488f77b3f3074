package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/hack/measure"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// firstReads is how often the first read is measured, each time in a process
// of its own.
const firstReads = 3

// reading measures reading a repository of many small bundles over HTTP: for
// the first time, and after a commit.
func (e *env) reading(ctx context.Context) error {
	measure.Title(fmt.Sprintf("Reading a repository of %d bundle directories of %d files", e.readingDirs, filesPerDir))
	server, err := gitserver.Start(gitserver.Config{Dir: e.path("reading-git")})
	if err != nil {
		return err
	}
	defer server.Close()
	var reports []readReport
	for i := range firstReads {
		o := readOrder{Dirs: e.readingDirs, Runs: max(1, e.runs/firstReads), Cache: e.path(fmt.Sprint("reading-cache-", i))}
		name := fmt.Sprint("reading-", i)
		o.URL, o.Tree = server.URL(name), e.path(name)
		if err := o.prepare(server, name); err != nil {
			return err
		}
		var r readReport
		u, err := child(ctx, order{Read: &o}, &r)
		if err != nil {
			return err
		}
		r.Peak, r.Anonymous = u.Peak, u.Anonymous
		reports = append(reports, r)
	}
	printReading(reports)
	return nil
}

// prepare makes the repository and a working copy of it.
func (o *readOrder) prepare(server *gitserver.Server, name string) error {
	if err := os.MkdirAll(o.Cache, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := server.Create(name); err != nil {
		return err
	}
	if err := gitserver.Clone(server.Path(name), o.Tree); err != nil {
		return err
	}
	if err := writeTree(o.Tree, o.Dirs); err != nil {
		return err
	}
	_, err := publish(o.Tree, "first")
	return err
}

// A readOrder is one first read and some after commits, in one process.
type readOrder struct {
	URL   string // of the repository
	Tree  string // a working copy, to commit in
	Cache string // a folder for what is fetched
	Dirs  int
	Runs  int
}

// A cost is what one piece of work took.
type cost struct{ Wall, CPU time.Duration }

// A readReport is what a readOrder took. The costs of several reads stand in
// their order.
type readReport struct {
	First, Same, One, None []readCost // from nothing; the same again; one file changed; nothing of a bundle changed
	Raw                    cost       // reading each file once, as bytes
	Bundles                int
	KeptBytes              int64 // that all bundles together keep in memory until the next read
	Peak, Anonymous        int   // KiB
}

type readCost struct{ Fetch, Read cost }

func (c readCost) both() cost {
	return cost{c.Fetch.Wall + c.Read.Wall, c.Fetch.CPU + c.Read.CPU}
}

// timed is what f takes. No other work runs in this process meanwhile.
func timed(f func() error) (cost, error) {
	cpu, err := measure.CPU(0)
	if err != nil {
		return cost{}, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return cost{}, err
	}
	wall := time.Since(begin)
	after, err := measure.CPU(0)
	return cost{wall, after - cpu}, err
}

// A readProbe reads one repository again and again.
type readProbe struct {
	*readOrder
	remotes *git.Remotes
	reader  *bundlesource.Reader
	memory  *bundlesource.Memory
}

func (o *readOrder) run(ctx context.Context) (any, error) {
	remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: o.Cache, UserAgent: "fleet-bench"})
	if err != nil {
		return nil, err
	}
	defer remotes.Close()
	r, err := bundlesource.New(bundlesource.Config{Addresses: address.WithLoopback(), Dir: o.Cache, UserAgent: "fleet-bench", Git: remotes})
	if err != nil {
		return nil, err
	}
	p := &readProbe{readOrder: o, remotes: remotes, reader: r}
	defer p.close()
	report := readReport{Bundles: o.Dirs}
	if report.First, err = p.series(ctx, 1, unchanged, ""); err != nil {
		return nil, err
	}
	if report.Raw, err = p.raw(ctx); err != nil {
		return nil, err
	}
	if report.Same, err = p.series(ctx, o.Runs, unchanged, ""); err != nil {
		return nil, err
	}
	report.One, err = p.series(ctx, o.Runs, func(i int) error {
		return p.commitFile(path.Join(bundleDir(i), settingsFile), settings(i, "changed"))
	}, "changed")
	if err != nil {
		return nil, err
	}
	report.None, err = p.series(ctx, o.Runs, func(i int) error {
		return p.commitFile("README.md", fmt.Sprint("number ", i))
	}, "")
	if err != nil {
		return nil, err
	}
	report.KeptBytes = p.kept()
	return report, nil
}

// unchanged is a change that is none.
func unchanged(int) error { return nil }

// commitFile is a change of one file.
func (p *readProbe) commitFile(name, text string) error {
	if err := writeFile(filepath.Join(p.Tree, name), text); err != nil {
		return err
	}
	_, err := publish(p.Tree, "change of "+name)
	return err
}

// series reads so many times, each time after a change. changed is what the bundle that changed must hold.
func (p *readProbe) series(ctx context.Context, runs int, change func(int) error, changed string) ([]readCost, error) {
	var costs []readCost
	for i := range runs {
		i %= p.Dirs
		if err := change(i); err != nil {
			return nil, err
		}
		runtime.GC() // what an earlier read left is not the next one's
		c, set, err := p.one(ctx)
		if err != nil {
			return nil, err
		}
		if err := p.check(set, i, changed); err != nil {
			return nil, err
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// one resolves, fetches and reads the newest commit.
func (p *readProbe) one(ctx context.Context) (readCost, bundle.Set, error) {
	var (
		c    readCost
		tree *git.Tree
		set  bundle.Set
		err  error
		head git.Commit
	)
	src, ref := git.Source{URL: p.URL}, git.Reference{Branch: gitserver.Branch}
	c.Fetch, err = timed(func() error {
		var err error
		if head, err = p.remotes.Resolve(ctx, src, ref); err != nil {
			return err
		}
		tree, err = p.remotes.Fetch(ctx, src, ref, head)
		return err
	})
	if err != nil {
		return c, set, err
	}
	defer tree.Close()
	repo := &api.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: "reading"},
		Spec:       api.GitRepoSpec{Targets: []api.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
	}
	in := bundlesource.Input{Tree: tree, Options: gitrepo.Options(repo, string(head)), Previous: p.memory}
	c.Read, err = timed(func() error {
		var err error
		set, p.memory, err = p.reader.Read(ctx, in)
		return err
	})
	return c, set, err
}

// errWrongBundles is why the costs would be worth nothing.
var errWrongBundles = errors.New("reading did not give what stands in the repository")

// check makes sure that the bundles are those of the commit.
func (p *readProbe) check(set bundle.Set, i int, changed string) error {
	if len(set.Results) != p.Dirs {
		return fmt.Errorf("%w: %d bundles instead of %d", errWrongBundles, len(set.Results), p.Dirs)
	}
	for _, r := range set.Results {
		if r.Bundle == nil {
			return fmt.Errorf("%w: %s: %v", errWrongBundles, r.Dir.Path, r.Findings)
		}
	}
	if changed == "" {
		return nil
	}
	at := slices.IndexFunc(set.Results, func(r bundle.Result) bool { return r.Dir.Path == bundleDir(i) })
	if at < 0 || !slices.ContainsFunc(set.Results[at].Bundle.Spec.Resources, func(r api.BundleResource) bool {
		return r.Name == settingsFile && strings.Contains(r.Content, changed)
	}) {
		return fmt.Errorf("%w: %s has not changed", errWrongBundles, bundleDir(i))
	}
	return nil
}

// raw reads each file of the newest commit once and does nothing with it.
func (p *readProbe) raw(ctx context.Context) (cost, error) {
	src, ref := git.Source{URL: p.URL}, git.Reference{Branch: gitserver.Branch}
	head, err := p.remotes.Resolve(ctx, src, ref)
	if err != nil {
		return cost{}, err
	}
	tree, err := p.remotes.Fetch(ctx, src, ref, head)
	if err != nil {
		return cost{}, err
	}
	defer tree.Close()
	return timed(func() error {
		return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, err = fs.ReadFile(tree, path)
			return err
		})
	})
}

// kept is how many bytes a reader holds between two reads, what it remembers
// of the last one included. The probe cannot be used any more.
func (p *readProbe) kept() int64 {
	with := heap()
	p.close()
	return with - heap()
}

// close lets go of the reader with all that it holds.
func (p *readProbe) close() {
	if p.reader != nil {
		_ = p.reader.Close() // what stays on disk is removed with the run
	}
	p.reader, p.memory = nil, nil
}

// heap is the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of with the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than 2^63
}

// printReading prints the medians of several reports.
func printReading(reports []readReport) {
	all := func(field func(readReport) []readCost, piece func(readCost) cost) cost {
		var walls, cpus []time.Duration
		for _, r := range reports {
			for _, c := range field(r) {
				walls, cpus = append(walls, piece(c).Wall), append(cpus, piece(c).CPU)
			}
		}
		return cost{measure.Median(walls), measure.Median(cpus)}
	}
	var rawWall, rawCPU []time.Duration
	var peak, anonymous int
	var kept int64
	for _, r := range reports {
		rawWall, rawCPU = append(rawWall, r.Raw.Wall), append(rawCPU, r.Raw.CPU)
		peak, anonymous, kept = max(peak, r.Peak), max(anonymous, r.Anonymous), max(kept, r.KeptBytes)
	}
	first := func(r readReport) []readCost { return r.First }
	base := all(first, readCost.both)
	measure.Row("what", "wall", "CPU", "wall, of the first", "CPU, of the first")
	measure.Row("---", "---:", "---:", "---:", "---:")
	line := func(name string, c cost) {
		measure.Row(name, measure.Milliseconds(c.Wall), measure.Milliseconds(c.CPU), measure.Share(c.Wall.Seconds(), base.Wall.Seconds()), measure.Share(c.CPU.Seconds(), base.CPU.Seconds()))
	}
	for _, s := range []struct {
		name  string
		field func(readReport) []readCost
	}{
		{"first read", first},
		{"after a commit that touches one file", func(r readReport) []readCost { return r.One }},
		{"after a commit that touches no bundle", func(r readReport) []readCost { return r.None }},
		{"the same commit again", func(r readReport) []readCost { return r.Same }},
	} {
		line(s.name, all(s.field, readCost.both))
		line("of that: resolve and fetch over HTTP", all(s.field, func(c readCost) cost { return c.Fetch }))
		line("of that: make the bundles", all(s.field, func(c readCost) cost { return c.Read }))
	}
	line("at best: each file of the commit read once as bytes", cost{measure.Median(rawWall), measure.Median(rawCPU)})
	bundles := 0
	for _, r := range reports {
		bundles = max(bundles, r.Bundles)
	}
	measure.Title("Memory of that")
	measure.Row("what", "figure")
	measure.Row("---", "---:")
	measure.Row("kept until the next read", fmt.Sprintf("%.1f MiB, %.2f KiB per bundle", float64(kept)/(1<<20), float64(kept)/1024/float64(max(1, bundles))))
	measure.Row("peak of the process that reads", measure.MiB(peak))
	measure.Row("of that anonymous, at most", measure.MiB(anonymous))
}
