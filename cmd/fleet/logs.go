package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/logs"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

const logsText = `Shows the last decisions of a cluster's agent, oldest first: what it installed, upgraded, put back, removed, waits for or refuses, and why. There
are at most 50. A decision that is made again and again is one line, with a count.

The agent tells them with its check-ins, so they are as old as the last one; on the site, fleet-agent status shows them too. They hold names,
words and texts of errors, and no values.`

func newLogsCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o logs.Options
	cmd := &cobra.Command{
		Use: "logs CLUSTER", Short: "Show what a cluster's agent has decided", Long: logsText,
		Example:           "  fleet logs c2\n  fleet logs c2 --bundle shop-web",
		ValidArgsFunction: g.CompleteObjects(std, logs.Grammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.Follow {
				return logs.Follow(cmd.Context(), o, s)
			}
			return logs.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, logs.Formats...)
	fs.BoolVarP(&o.Follow, "follow", "f", false, "then print each new decision, until interrupted")
	cli.NameVar(fs, &o.Bundle, "bundles", "bundle", "", "only decisions about this `bundle`")
	fs.IntVar(&o.Lines, "lines", journal.MaxLines, "only the last `N`")
	fs.BoolVar(&o.Bare, "no-headers", false, "no titles")
	g.CompleteObjectFlags(cmd, std)
	return cmd
}
