package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/monitor"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const monitorText = `Prints a snapshot of the fleet as one line of JSON: the objects of Fleet in short, and diagnostics with the objects that have a fault. fleet analyze
shows and compares snapshots.

A snapshot never has data of Secrets. A list that you may not read, or that fails, becomes an entry of the key unread, and nothing is diagnosed that
needs it. A change that may still be under way is no fault, and neither is a cluster that is away by plan.

Exit codes: 0 the snapshot is printed, whatever it says; 1 it is not.`

func newMonitorCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := monitor.Options{Interval: monitor.Interval(monitor.DefaultInterval)}
	cmd := &cobra.Command{
		Use: "monitor", Short: "Print snapshots of the fleet, with what is wrong", Long: monitorText, Args: cli.NoArguments,
		Example: "  fleet monitor | fleet analyze\n  fleet monitor --watch --interval 5m >> fleet.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return monitor.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.Watch, "watch", "w", false, "print a snapshot after each interval, until interrupted")
	fs.Var(&o.Interval, "interval", "`time` between two snapshots: seconds, or a duration")
	return cmd
}
