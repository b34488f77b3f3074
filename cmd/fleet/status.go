package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/status"
)

const statusText = `Shows a fleet on one screen: the sums, then only what needs a person, then what moves by itself.

With --watch it goes on with one line for everything that happens. With --exit-code it ends with 3 if something needs a person or
moves, and with 6 if all is Ready but for clusters that are Offline.`

func newStatusCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o status.Options
	cmd := &cobra.Command{
		Use: "status", Short: "Show a fleet on one screen", Long: statusText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(status.Formats...); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			if !o.Watch {
				return status.Run(cmd.Context(), o, s)
			}
			w, err := g.Watch(cmd.Context(), s, client.Selection{HelmOpsIfServed: true})
			if err != nil {
				return err
			}
			return status.Watch(cmd.Context(), o, s, w)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, status.Formats...)
	fs.BoolVarP(&o.Watch, "watch", "w", false, "then tell everything that happens")
	fs.BoolVar(&o.ExitCode, "exit-code", false, "end with 3 or 6 if not all is Ready")
	return cmd
}
