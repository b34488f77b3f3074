package join

import (
	"context"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// startManager starts the roles that registration needs. It holds no lease:
// nothing would restart it if the machine were too busy to renew one.
func startManager(ctx context.Context, h *hub, program, dir string) (*measure.Manager, error) {
	return measure.StartManager(ctx, h.Cluster, "fleet-controller", program, dir,
		"--roles=controller,agentmanagement,cleanup", "--leader-elect=false")
}
