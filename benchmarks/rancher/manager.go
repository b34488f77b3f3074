package rancher

import (
	"context"
	"path/filepath"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// startManager starts the role that maps Rancher's objects, with the leases of
// production.
func startManager(ctx context.Context, h *hub, program, dir, name string) (*measure.Manager, error) {
	return measure.StartManager(ctx, h.Cluster, name, program, filepath.Join(dir, name),
		"--roles=workspace", "--workspace-mode=standalone", "--identity="+name, "--takeover")
}
