package join

import (
	"context"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// startManager starts the roles that registration is the business of. It holds no
// lease: nobody would start it again, should the machine be too busy to renew one.
func startManager(ctx context.Context, h *hub, program, dir string) (*measure.Manager, error) {
	return measure.StartManager(ctx, h.Cluster, "fleet-controller", program, dir,
		"--roles=controller,agentmanagement,cleanup", "--leader-elect=false")
}
