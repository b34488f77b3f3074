package sources

import (
	"context"
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// A bench is a running fleet of three clusters that is measured.
type bench struct {
	options
	*fleet.Fleet
	tree string // working copy of the repository that is deployed
}

// threeClusters brings up a fleet of three clusters and measures that, single
// commits, and what it needs at rest.
func (e *env) threeClusters(ctx context.Context) error {
	cfg, err := e.fleet(ctx, "three", "c1", "c2")
	if err != nil {
		return err
	}
	first, release, err := port.Block(fleet.Ports{First: 1, Clusters: len(cfg.Downstream)}.Last())
	if err != nil {
		return err
	}
	defer release()
	cfg.Ports = fleet.Ports{First: first, Clusters: len(cfg.Downstream)}
	b := &bench{options: e.options, tree: e.path("three-tree")}
	defer func() {
		if b.Fleet != nil {
			b.Stop()
		}
	}()
	if err := b.up(ctx, cfg, e.inClone("examples")); err != nil {
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

// up measures how long a fleet takes from nothing to everything Ready, as
// fleet-sandbox up does it.
func (b *bench) up(ctx context.Context, cfg fleet.Config, examples string) error {
	measure.Title("Up: from nothing to everything Ready")
	begin := time.Now()
	var steps []string
	cfg.Report = func(step, _ string) {
		steps = append(steps, fmt.Sprintf("%s after %s", step, measure.Seconds(time.Since(begin))))
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
	measure.Row("what", "time")
	measure.Row("---", "---:")
	measure.Row(fmt.Sprintf("%d clusters, %d bundles Ready", len(snap.Clusters), len(snap.Bundles)), measure.Seconds(time.Since(begin)))
	for _, step := range steps {
		measure.Row("of that: "+step, "")
	}
	return gitserver.Clone(f.Git.Path("examples"), b.tree)
}
