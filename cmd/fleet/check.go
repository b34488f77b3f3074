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

Ends with 3 if a line says FAIL, and with 1 if most checks could not look.`

func newCheckCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	cmd := &cobra.Command{
		Use: "check", Short: "Look for what is wrong with the installation", Long: checkText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(check.Formats...); err != nil {
				return err
			}
			s, err := g.Connect(cmd.Context(), std, true) // the brake is not a fault
			if err != nil {
				return err
			}
			return check.Run(cmd.Context(), g, o, s)
		},
	}
	o.AddFlag(cmd.Flags(), check.Formats...)
	return cmd
}
