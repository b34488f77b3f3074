package sources

import (
	"context"

	"github.com/fleetworkspace/fleet/benchmarks/sources/broken"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
)

// load measures a manager a third of whose sources fail, under webhooks.
func (e *env) load(ctx context.Context) error {
	cfg, err := e.fleet(ctx, "load", "c1")
	if err != nil {
		return err
	}
	first, release, err := port.Block(fleet.Ports{First: 1, Clusters: len(cfg.Downstream)}.Last())
	if err != nil {
		return err
	}
	defer release()
	cfg.Ports = fleet.Ports{First: first, Clusters: len(cfg.Downstream)}
	cfg.ImageScans = true
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer f.Stop()
	return broken.Run(ctx, f, e.loadOptions)
}
