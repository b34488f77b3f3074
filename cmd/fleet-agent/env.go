package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// variables are what the environment may say in the place of a flag. It is how
// a manager tells an agent whose command line it leaves as it is.
var variables = []struct{ flag, name string }{
	{"namespace", registration.EnvNamespace},
	{"agent-scope", registration.EnvScope},
	{"leader-elect", registration.EnvLeaderElect},
	{"workers", registration.EnvWorkers},
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
