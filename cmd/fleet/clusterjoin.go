package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/install"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const clusterJoinText = `Makes the Cluster NAME with its labels, and lets one agent in as it.

With --to-context or --to-kubeconfig the agent is installed there, and the command waits until it has checked in:

  fleet cluster join c3 -n fleet-default --label env=prod --to-context c3

Without, it prints the agent's file, to be applied to the new cluster by whoever can reach it:

  fleet cluster join c3 -n fleet-default --label env=prod > c3.yaml

A Cluster of that name that is there already keeps its labels, and its agent comes back to it.`

func newClusterJoinCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o install.JoinOptions
	cmd := &cobra.Command{
		Use: "join NAME", Short: "Let a new cluster in", Long: clusterJoinText, Args: cluster.OneCluster,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Name, err = cluster.NameOf(args); err != nil {
				return err
			}
			ttl, err := o.Check()
			if err != nil {
				return err
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return install.Join(cmd.Context(), g, o, ttl, s)
		},
	}
	fs := cmd.Flags()
	cli.LabelFlag(fs, &o.Labels, "labels of the new Cluster, `k=v,...`")
	fs.StringVar(&o.Context, "to-context", "", "`name` of the kubeconfig's context for the new cluster")
	fs.StringVar(&o.File, "to-kubeconfig", "", "kubeconfig `file` of the new cluster")
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long to wait for the agent, with --to-context or --to-kubeconfig")
	fs.StringVarP(&o.TTL, "ttl", "t", "1d", "`time` until the token in the file ends, such as 12h or 7d; 0: it never ends")
	o.Reach.AddFlags(fs)
	return cmd
}
