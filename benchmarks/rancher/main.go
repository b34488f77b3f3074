// Package rancher measures how the manager maps a large Rancher: thousands of
// clusters in hundreds of workspaces, a leader that is killed in the middle of it,
// one change while it goes on, and then nothing at all. The API server and the
// manager are real; of Rancher there are its kinds and its objects. It asserts
// nothing.
//
//	go run ./benchmarks rancher
//	go run ./benchmarks rancher -clusters 500 -workspaces 20 -quiet 1m
package rancher

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/hack/measure"
)

type settings struct {
	clusters   int
	workspaces int
	quiet      time.Duration
	timeout    time.Duration
	programs   string
}

var errUsage = errors.New("wrong usage")

func parseOptions(args []string) (settings, error) {
	o := settings{}
	fs := flag.NewFlagSet("rancher", flag.ContinueOnError)
	fs.IntVar(&o.clusters, "clusters", 5000, "how `many` clusters Rancher has")
	fs.IntVar(&o.workspaces, "workspaces", 200, "in how `many` workspaces they are")
	fs.DurationVar(&o.quiet, "quiet", 10*time.Minute, "for how long writes are counted when everything is done")
	fs.DurationVar(&o.timeout, "patience", 15*time.Minute, "how long a part may take")
	fs.StringVar(&o.programs, "fleet-bin", "", "`folder` with this project's programs (default: they are built)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.workspaces < 1 || o.clusters < 10*o.workspaces {
		return o, fmt.Errorf("%w: -workspaces: want at least 1, and ten clusters for each", errUsage)
	}
	return o, nil
}

// Main is the main function of this suite; it reads the command line.
func Main() { measure.Main("rancher", parseOptions, run) }

func run(ctx context.Context, o settings) (err error) {
	klog.LogToStderr(false) // what fails comes back as an error
	klog.SetOutput(io.Discard)
	g, err := measure.Prepare(ctx, "rancher")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if o.programs, err = g.Programs(ctx, o.programs); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Name: "rancher", Dir: filepath.Join(g.Dir, "rancher"), Binary: g.Kubernetes})
	if err != nil {
		return err
	}
	defer c.Stop()
	h, err := newHub(ctx, c)
	if err != nil {
		return err
	}
	b := &bench{settings: o, hub: h, dir: g.Dir}
	for _, phase := range []func(context.Context) error{b.workspacesFirst, b.sync, b.atRest} {
		if err := phase(ctx); err != nil {
			return errors.Join(err, b.lastWords())
		}
	}
	return nil
}
