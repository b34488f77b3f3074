package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/check"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const checkText = `Looks at the whole installation: the connection, the manager and who leads, Fleet's kinds, where agents are sent, tokens that never end, agents by
version and their credentials, clocks, identities that are used twice, and accounts, addresses, roles and bundles that this version refuses. A line that fails says which part of the way it is, and what to do. It changes nothing.

Ends with 3 if a line says FAIL, and with 1 if most checks could not look.

With --policy it lists instead what GitRepoRestrictions and Policies would change if they were applied: what is refused, allowed, or deployed again with other options. What is deployed stays. Ends with 3 if something is refused that is allowed now.`

func newCheckCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	var limits string
	cmd := &cobra.Command{
		Use: "check [--policy FILE]", Short: "Look for what is wrong with the installation", Long: checkText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(check.Formats...); err != nil {
				return err
			}
			if cmd.Flags().Changed("policy") {
				return check.RunLimits(cmd.Context(), g, o, std, limits)
			}
			s, err := g.Connect(cmd.Context(), std, true) // the brake is not a fault
			if err != nil {
				return err
			}
			return check.Run(cmd.Context(), g, o, s)
		},
	}
	o.AddFlag(cmd.Flags(), check.Formats...)
	cmd.Flags().StringVar(&limits, "policy", "", "list what the GitRepoRestrictions and Policies of this `file` would change; - is stdin")
	return cmd
}
