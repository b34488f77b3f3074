package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// variables are the environment variables that can replace flags. With them a manager
// configures an agent whose command line it does not change.
var variables = []struct{ flag, name string }{
	{"namespace", registration.EnvNamespace},
	{"agent-scope", registration.EnvScope},
	{"leader-elect", registration.EnvLeaderElect},
	{"workers", registration.EnvWorkers},
	{"checkin-interval", "CHECKIN_INTERVAL"},
	{"lease-duration", registration.EnvLeaseDuration},
	{"lease-renew-deadline", registration.EnvLeaseRenew},
	{"lease-retry-period", registration.EnvLeaseRetry},
}

// fromEnvironment gives the flags of a command that its command line does not
// name what the environment says.
func fromEnvironment(cmd *cobra.Command, env func(string) string) error {
	for _, v := range variables {
		flag := cmd.Flags().Lookup(v.flag)
		value := env(v.name)
		if flag == nil || flag.Changed || value == "" {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("environment variable %s: %w", v.name, err)
		}
	}
	return nil
}
