package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/get"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const clusterText = `Lets clusters in, shows them, looks after their agents and credentials, and lets them go.`

func newClusterCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "Let clusters in, look after their agents, let them go", Long: clusterText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newClusterJoinCommand(g, std), newClusterListCommand(g, std), newClusterAcceptCommand(g, std), newClusterForgetCommand(g, std),
		newClusterRotateCommand(g, std), newClusterAgentsCommand(g, std),
	)
	return cmd
}

const clusterListText = `Shows clusters, as fleet get clusters does, and on stderr which agents wait to be accepted.`

func newClusterListCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o get.Options
	cmd := &cobra.Command{
		Use: "list [NAME...]", Short: "Show clusters, and who waits to be let in", Long: clusterListText,
		ValidArgsFunction: g.CompleteObjects(std, cli.ClustersGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := cli.ClustersGrammar.ParseObjects(args)
			if err != nil {
				return err
			}
			kindAndNames := []string{"clusters"}
			for _, r := range refs {
				kindAndNames = append(kindAndNames, r.Name)
			}
			if err := o.Parse(kindAndNames, g); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if err := get.Run(cmd.Context(), o, s); err != nil {
				return err
			}
			return cluster.ReportWaiting(cmd.Context(), s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, get.Formats...)
	fs.StringVarP(&o.Labels, "selector", "l", "", "only clusters with labels that match `SELECTOR`")
	fs.BoolVarP(&o.All, "all-namespaces", "A", false, "all workspaces, with a column for them")
	fs.StringSliceVar(&o.States, "state", nil, "only those in one of these `STATES`: A,B")
	fs.BoolVar(&o.NotReady, "not-ready", false, "only those that are not Ready")
	return cmd
}

const clusterAcceptText = `Lets an agent take a Cluster that has had another one: where the manager's registration.reclaim is approve, it waits until a person says so. Its
request is refused by deleting the ClusterRegistration.

The same is done by: kubectl annotate clusters.fleet.cattle.io NAME ` + fleet.AnnotationAcceptRegistration + `=REQUEST`

func newClusterAcceptCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	request := ""
	cmd := &cobra.Command{
		Use: "accept NAME", Short: "Let another agent take a cluster", Long: clusterAcceptText, Args: cluster.OneCluster,
		ValidArgsFunction: g.CompleteObjects(std, cli.ClusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := cluster.NameOf(args)
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
			return cluster.Accept(cmd.Context(), name, request, s)
		},
	}
	cmd.Flags().StringVar(&request, "request", "", "`name` of the request, where several agents ask")
	return cmd
}

const clusterForgetText = `Removes a Cluster from the fleet: its agent loses its credential, and the manager what it knew. Nothing that runs on the cluster is removed, and its
agent goes on keeping that as it is.

A cluster whose agent has checked in lately is forgotten only with --yes.

With --uninstall everything that Fleet has deployed there is removed before, by the cluster's own agent, which has to be there; what says
keepResources stays. The command says what would go and does nothing without --yes. What has not gone after --timeout is given up and named
(exit 6). Until then removing the annotation ` + fleet.AnnotationUninstall + ` from the Cluster brings everything back.`

func newClusterForgetCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o cluster.ForgetOptions
	cmd := &cobra.Command{
		Use: "forget NAME", Short: "Let a cluster go; what runs there stays", Long: clusterForgetText, Args: cluster.OneCluster,
		Example:           "  fleet cluster forget -n fleet-default c1 --yes\n  fleet cluster forget -n fleet-default c1 --uninstall --yes",
		ValidArgsFunction: g.CompleteObjects(std, cli.ClusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Name, err = cluster.NameOf(args); err != nil {
				return err
			}
			if o.Timeout <= 0 {
				return errors.New("--timeout must be above 0")
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return cluster.DeleteCluster(cmd.Context(), o, s)
		},
	}
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "also a cluster whose agent is there")
	cmd.Flags().BoolVar(&o.Uninstall, "uninstall", false, "remove what Fleet has deployed there before")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "with --uninstall: wait so long for the agent at most")
	return cmd
}
