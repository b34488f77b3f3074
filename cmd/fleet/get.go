package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/get"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const getText = `Shows objects of Fleet, sorted by workspace and name.

KIND is one of repos, bundles, clusters, groups, deployments and tokens, or what kubectl calls them. -o json and -o yaml print the
Kubernetes objects as they are, as kubectl does.`

func newGetCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o get.Options
	cmd := &cobra.Command{
		Use: "get KIND [NAME...]", Short: "Show objects of Fleet", Long: getText,
		Args:              get.WantKind,
		ValidArgsFunction: g.CompleteGet(std),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Parse(args, g); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.Watch {
				return get.Watch(cmd.Context(), o, s)
			}
			return get.Run(cmd.Context(), o, s)
		},
	}
	o.AddFlags(cmd)
	g.CompleteObjectFlags(cmd, std)
	client.Register(cmd, "state", client.CompleteStates)
	return cmd
}
