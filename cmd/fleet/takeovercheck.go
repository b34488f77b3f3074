package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/takeover"
)

const takeoverCheckText = `Compares what is deployed with what this version would deploy, for every Bundle, and writes nothing.

identical: every deployment keeps its id, so no agent touches what it runs. differs: something would be deployed, released, held back or withdrawn,
or could not be deployed because a cluster has no namespace that this version accepts.
not supported: it uses what this version does not act on. not known: it cannot be worked out with what you may read.

Bundles are compared as they are in the cluster; how their files are read from a repository is not looked at. -o wide says what differs on which
cluster.

Exit codes: 0 all are identical; 2 not all are.`

func newTakeoverCheckCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o takeover.CheckOptions
	cmd := &cobra.Command{
		Use: "check", Short: "Show what a takeover would change", Long: takeoverCheckText, Args: cli.NoArguments,
		Example: "  fleet takeover check\n  fleet takeover check -n fleet-default -o wide\n" +
			"  fleet takeover check -o json | jq -r '.bundles[] | select(.verdict != \"identical\") | .name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(takeover.CheckFormats...); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return takeover.Check(cmd.Context(), o, s)
		},
	}
	o.Output.AddFlag(cmd.Flags(), takeover.CheckFormats...)
	return cmd
}
