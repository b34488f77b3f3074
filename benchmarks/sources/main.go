// Package sources prints the figures of docs/benchmarks.md, each beside what the
// same machine could do at best in the same run. It asserts nothing.
//
//	go run ./benchmarks sources
//	go run ./benchmarks sources -only reading,chart
//	go run ./benchmarks sources -only push -runs 30
//	go run ./benchmarks sources -only load -load-time 3m
//
// The fleets that it runs are its own and are removed at the end.
package sources

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/benchmarks/sources/broken"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// options are what can be set. Small sizes are for trying the bench itself.
type options struct {
	only []string // names of parts; all where empty

	runs int           // commits or reads per figure
	rest time.Duration // how long the fleet is watched at rest

	readingDirs int // directories that are bundles

	chartMiB int // one chart, unpacked

	sourcesRepos int           // GitRepos on 30 remotes
	sourcesTime  time.Duration // how long they are watched

	bigMiB []int // bundles of random data

	applyBundles int // directories that fleet apply reads

	loadOptions broken.Options // sizes of the load part
}

func (o *options) addFlags(fs *flag.FlagSet) {
	list := func(name, usage string, set func([]string) error) {
		fs.Func(name, usage, func(text string) error { return set(strings.Split(text, ",")) })
	}
	list("only", "the `parts` to run, separated by commas: "+strings.Join(partNames(), ", "), func(names []string) error {
		for _, name := range names {
			if !slices.Contains(partNames(), name) {
				return fmt.Errorf("there is no part %q", name)
			}
		}
		o.only = names
		return nil
	})
	fs.IntVar(&o.runs, "runs", 10, "commits or reads per figure")
	fs.DurationVar(&o.rest, "rest", 2*time.Minute, "how long to watch the fleet at rest")
	fs.IntVar(&o.readingDirs, "reading-dirs", 1000, "directories of the repository that is read")
	fs.IntVar(&o.chartMiB, "chart-size", 50, "MiB of the chart, unpacked")
	fs.IntVar(&o.sourcesRepos, "sources-repos", 300, "GitRepos on 30 remotes")
	fs.DurationVar(&o.sourcesTime, "sources-time", 10*time.Minute, "how long to watch them")
	fs.IntVar(&o.applyBundles, "apply-bundles", 200, "directories that fleet apply reads; BENCH_REFERENCE names the reference's fleet to compare with")
	l := &o.loadOptions
	fs.IntVar(&l.GitRepos, "load-gitrepos", 300, "GitRepos of the load part, a third of them on broken servers")
	fs.IntVar(&l.HelmOps, "load-helmops", 300, "HelmOps, likewise")
	fs.IntVar(&l.ImageScans, "load-imagescans", 100, "ImageScans, likewise")
	fs.IntVar(&l.Webhooks, "load-webhooks", 50, "webhooks a second")
	fs.IntVar(&l.Servers, "load-servers", 96, "servers, a third of them broken")
	fs.DurationVar(&l.Time, "load-time", 10*time.Minute, "how long the load lasts")
	o.bigMiB = []int{1, 5, 20}
	list("big-sizes", "MiB of the big bundles (default 1,5,20)", func(sizes []string) error {
		o.bigMiB = nil
		for _, text := range sizes {
			var n int
			if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
				return fmt.Errorf("%q is no number of MiB", text)
			}
			o.bigMiB = append(o.bigMiB, n)
		}
		return nil
	})
}

// A part measures one thing and prints its tables.
type part struct {
	name string
	run  func(*env, context.Context) error
}

// parts are all parts in the order in which they run: what needs no fleet,
// then what each brings up a fleet of its own.
func parts() []part {
	return []part{
		{"reading", (*env).reading},
		{"chart", (*env).chart},
		{"apply", (*env).apply},
		{"push", (*env).threeClusters},
		{"sources", (*env).sources},
		{"load", (*env).load},
		{"big", (*env).big},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// Main is the main function of this suite; it reads the command line.
func Main() {
	o := options{}
	o.addFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	root, err := source.Root()
	if err != nil {
		return err
	}
	e := &env{options: o, dir: dir, root: root}
	measure.Title("Machine")
	if err := measure.Machine(); err != nil {
		return err
	}
	var errs []error
	for _, p := range parts() {
		if ctx.Err() != nil || len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		if err := p.run(e, ctx); err != nil { // the other parts are worth their time all the same
			fmt.Printf("\nNot finished: %s: %v\n", p.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// An env is what parts share.
type env struct {
	options
	dir   string // for files of this run; removed at the end
	root  string // of the clone
	built string // folder of the programs, once they are built
}

// programs builds Fleet's programs and returns the folder of a copy, which
// stays as it is whatever is built meanwhile.
func (e *env) programs(ctx context.Context) (string, error) {
	if e.built != "" {
		return e.built, nil
	}
	builder, err := kubebin.Default(e.root)
	if err != nil {
		return "", err
	}
	built, err := builder.Fleet(ctx)
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(e.path("bin"), os.DirFS(built)); err != nil {
		return "", fmt.Errorf("copy programs: %w", err)
	}
	e.built = e.path("bin")
	return e.built, nil
}

// fleet is the configuration of a fleet of its own for a part: names are the
// downstream clusters. Everything is built, so that this costs nothing later.
func (e *env) fleet(ctx context.Context, part string, names ...string) (fleet.Config, error) {
	kubernetes, err := kubebin.Ensure(ctx, os.Stderr)
	if err != nil {
		return fleet.Config{}, err
	}
	programs, err := e.programs(ctx)
	if err != nil {
		return fleet.Config{}, err
	}
	cfg := fleet.Config{
		Dir: e.path(part), Kubernetes: kubernetes, Programs: programs, Charts: e.inClone("charts"),
		CheckIn: time.Minute, // as the chart has it
	}
	for i, name := range names {
		cfg.Downstream = append(cfg.Downstream, fleet.Downstream{
			Name: name, Labels: map[string]string{"env": []string{"dev", "prod"}[i%2]},
		})
	}
	return cfg, nil
}

// path is a file or folder of this run.
func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// inClone is a file or folder of the clone.
func (e *env) inClone(name string) string { return filepath.Join(e.root, name) }
