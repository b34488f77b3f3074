// Package agent measures one agent: the real program, with credentials and
// rights of production, a real API server of its own and a real one of its
// manager. This process takes the manager's place. It asserts nothing.
//
//	go run ./benchmarks agent
//	go run ./benchmarks agent -only rest -releases 10,100
//
// Times stand beside what the same API servers can do at best, in the same run:
// the same objects, sent by this process alone.
package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// Parts of the measurement.
const (
	partRest    = "rest"    // releases at rest, and the start with the most of them
	partSpeed   = "speed"   // many bundles at once
	partLatency = "latency" // one bundle after another
)

type settings struct {
	parts    []string
	releases []int         // at rest, ascending
	rest     time.Duration // how long an agent at rest is watched
	bundles  int           // at once
	samples  int           // one after another
	timeout  time.Duration // for one step
	programs string
	profile  string // folder for profiles; empty: none
}

var errUsage = errors.New("wrong usage")

func parseOptions(args []string) (settings, error) {
	o := settings{}
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	only := fs.String("only", "rest,speed,latency", "`parts` to measure")
	releases := fs.String("releases", "10,100,300", "how many releases of 10 objects rest, ascending")
	fs.DurationVar(&o.rest, "rest", 2*time.Minute, "how long to watch the agent at rest")
	fs.IntVar(&o.bundles, "bundles", 100, "bundles of 5 ConfigMaps that are installed and upgraded at once")
	fs.IntVar(&o.samples, "samples", 200, "changes of one bundle of one ConfigMap, one after another")
	fs.DurationVar(&o.timeout, "patience", 10*time.Minute, "how long a step may take")
	fs.StringVar(&o.programs, "fleet-bin", "", "`folder` with the program fleet-agent (default: it is built)")
	fs.StringVar(&o.profile, "profile", "", "`folder` for profiles of memory and processor (default: none)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.parts = strings.Split(*only, ",")
	for _, p := range o.parts {
		if !slices.Contains([]string{partRest, partSpeed, partLatency}, p) {
			return o, fmt.Errorf("%w: no part %q", errUsage, p)
		}
	}
	for _, text := range strings.Split(*releases, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(o.releases) > 0 && n <= o.releases[len(o.releases)-1] {
			return o, fmt.Errorf("%w: -releases %q: want numbers, ascending", errUsage, *releases)
		}
		o.releases = append(o.releases, n)
	}
	if o.bundles < 1 || o.samples < 1 {
		return o, fmt.Errorf("%w: -bundles and -samples must be above 0", errUsage)
	}
	return o, nil
}

// Main is the main function of this suite; it reads the command line.
func Main() { measure.Main("agent", parseOptions, run) }

// run measures all parts: what rests in one world, what moves in another.
func run(ctx context.Context, o settings) (err error) {
	g, err := measure.Prepare(ctx, "agent")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if o.programs, err = g.Programs(ctx, o.programs); err != nil {
		return err
	}
	b := &bench{settings: o, dir: g.Dir, binary: g.Kubernetes, charts: filepath.Join(g.Root, "charts")}
	if o.has(partRest) {
		if err := b.in(ctx, "rest", b.measureRest); err != nil {
			return err
		}
	}
	if o.has(partSpeed) || o.has(partLatency) {
		return b.in(ctx, "move", b.measureMoves)
	}
	return nil
}

func (o settings) has(part string) bool { return slices.Contains(o.parts, part) }

// A bench is the whole measurement.
type bench struct {
	settings
	dir    string
	binary string // Kubernetes
	charts string
}

// in measures in a new world.
func (b *bench) in(ctx context.Context, name string, do func(context.Context, *world) error) error {
	w, err := openWorld(ctx, b, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer w.close()
	if err := do(ctx, w); err != nil {
		return fmt.Errorf("%s: %w (log of the agent: %s)", name, err, w.agent.lastWords())
	}
	return nil
}

// measureMoves measures what is deployed at once, and then one by one.
func (b *bench) measureMoves(ctx context.Context, w *world) error {
	if b.has(partSpeed) {
		if err := b.measureSpeed(ctx, w); err != nil {
			return err
		}
	}
	if b.has(partLatency) {
		return b.measureLatency(ctx, w)
	}
	return nil
}
