// Command bench prints the figures of docs/benchmarks.md: how long a commit
// takes to be Ready, how long a fleet takes to come up, what it needs at rest,
// and what the same machine's API servers can do in the same run. It asserts
// nothing.
//
//	go run ./hack/bench
//	go run ./hack/bench -runs 30 -rest 5m
//
// It runs a fleet of three clusters of its own and removes it at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

type options struct {
	runs int           // commits per figure
	rest time.Duration // how long the fleet is watched at rest
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 10, "commits per figure")
	flag.DurationVar(&o.rest, "rest", 2*time.Minute, "how long to watch the fleet at rest")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A bench is a running fleet that is measured.
type bench struct {
	options
	*fleet.Fleet
	tree string // working copy of the repository that is deployed
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg, err := prepare(ctx, dir)
	if err != nil {
		return err
	}
	title("Machine")
	if err := printMachine(); err != nil {
		return err
	}
	b := &bench{options: o, tree: filepath.Join(dir, "tree")}
	defer func() {
		if b.Fleet != nil {
			b.Stop()
		}
	}()
	root, err := source.Root()
	if err != nil {
		return err
	}
	if err := b.up(ctx, cfg, filepath.Join(root, "examples")); err != nil {
		return err
	}
	if err := b.ceiling(ctx); err != nil {
		return err
	}
	if err := b.commits(ctx); err != nil {
		return err
	}
	return b.atRest(ctx)
}

// prepare builds what is needed, so that it costs nothing later.
func prepare(ctx context.Context, dir string) (fleet.Config, error) {
	root, err := source.Root()
	if err != nil {
		return fleet.Config{}, err
	}
	kubernetes, err := kubebin.Ensure(ctx, os.Stderr)
	if err != nil {
		return fleet.Config{}, err
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		return fleet.Config{}, err
	}
	programs, err := builder.Fleet(ctx)
	if err != nil {
		return fleet.Config{}, err
	}
	return fleet.Config{
		Dir: filepath.Join(dir, "run"), Kubernetes: kubernetes, Programs: programs, Charts: filepath.Join(root, "charts"),
		Downstream: []fleet.Downstream{
			{Name: "c1", Labels: map[string]string{"env": "dev"}},
			{Name: "c2", Labels: map[string]string{"env": "prod"}},
		},
		CheckIn: time.Minute, // as the chart has it
	}, nil
}

// up measures how long a fleet takes from nothing to everything Ready, as
// fleet-sandbox up does it.
func (b *bench) up(ctx context.Context, cfg fleet.Config, examples string) error {
	title("Up: from nothing to everything Ready")
	begin := time.Now()
	var steps []string
	cfg.Report = func(step, _ string) {
		steps = append(steps, fmt.Sprintf("%s after %s", step, seconds(time.Since(begin))))
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	b.Fleet = f
	branch, err := f.Git.Publish("examples", examples)
	if err != nil {
		return err
	}
	err = f.Deploy(ctx, fleet.Repository{
		Name: "examples", URL: f.Git.URL("examples"), Branch: branch,
		LocalPaths: []string{"settings"}, Polling: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	snap, err := f.WaitReady(limit, "")
	if err != nil {
		return err
	}
	row("what", "time")
	row("---", "---:")
	row(fmt.Sprintf("%d clusters, %d bundles Ready", len(snap.Clusters), len(snap.Bundles)), seconds(time.Since(begin)))
	for _, step := range steps {
		row("of that: "+step, "")
	}
	return gitserver.Clone(f.Git.Path("examples"), b.tree)
}
