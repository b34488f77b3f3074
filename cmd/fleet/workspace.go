package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/rancher"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/workspace"
)

const workspaceText = `Shows workspaces, makes them, and moves clusters from one to another: through the Kubernetes API, or with --rancher through that of Rancher, which
then knows who has made a workspace, gives that person the rights of its owner, and checks what you may do.

--rancher alone takes address, certificate authority and token from a kubeconfig that Rancher has made (its server ends with /k8s/clusters/NAME);
--rancher=URL with --rancher-token-file, or with the environment's RANCHER_TOKEN_KEY, goes to another one.`

func newWorkspaceCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace", Aliases: []string{"workspaces"}, Short: "Show and make workspaces, move clusters between them", Long: workspaceText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkspaceListCommand(g, std), newWorkspaceCreateCommand(g, std), newWorkspaceMoveCommand(g, std))
	return cmd
}

const workspaceListText = `Shows all workspaces that you may see, with their clusters and bundles that are Ready, and who has made them.`

func newWorkspaceListCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	var r rancher.Options
	cmd := &cobra.Command{
		Use: "list", Short: "Show workspaces", Long: workspaceListText, Args: cli.NoArguments,
		Example: "  fleet workspace list\n  fleet workspace list --rancher",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(workspace.Formats...); err != nil {
				return err
			}
			k, now, err := workspace.ConnectKeepers(cmd.Context(), &r, g, std)
			if err != nil {
				return err
			}
			return workspace.List(cmd.Context(), o, k, std, now)
		},
	}
	o.AddFlag(cmd.Flags(), workspace.Formats...)
	workspace.AddFlags(&r, cmd.Flags())
	return cmd
}

const workspaceCreateText = `Makes a workspace, where it is not there yet: a FleetWorkspace where Rancher's kinds are in the cluster, and waits until that has its namespace; else a
namespace alone.

Namespaces of the system are never workspaces. A namespace that is there already becomes one only with --existing, which asks for a right to it
that whoever may make workspaces need not have: it is for administrators.`

func newWorkspaceCreateCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o workspace.CreateOptions
	var r rancher.Options
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a workspace", Long: workspaceCreateText, Args: workspace.OneWorkspace,
		Example: "  fleet workspace create team-a\n  fleet workspace create team-a --rancher",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			if o.Timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			return workspace.Act(cmd.Context(), &r, g, std, func(ctx context.Context, k workspace.Keepers) (string, error) { return k.Create(ctx, o) })
		},
	}
	cmd.Flags().BoolVar(&o.Existing, "existing", false, "let it have a namespace that is there already")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 30*time.Second, "wait so long for its namespace at most")
	workspace.AddFlags(&r, cmd.Flags())
	return cmd
}

const workspaceMoveText = `Moves a cluster to another workspace. It keeps its identity and its agent; the new workspace's bundles are deployed to it, and what both deploy goes on
running. What the new workspace does not deploy is removed from the cluster after a while; where that is anything, the command says what and does
nothing without --yes. (Rancher's API does not tell, so that with --rancher nobody is asked.)

CLUSTER is the name of the Fleet Cluster, with -n WORKSPACE where there are several of that name; with --rancher also what Rancher calls it. The
cluster that the manager runs in is never moved.`

func newWorkspaceMoveCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o workspace.MoveOptions
	var r rancher.Options
	cmd := &cobra.Command{
		Use: "move CLUSTER WORKSPACE", Short: "Move a cluster to another workspace", Long: workspaceMoveText,
		Example:           "  fleet workspace move c-12345 team-a\n  fleet workspace move -n fleet-default prod-eu team-a --rancher",
		ValidArgsFunction: g.CompleteObjects(std, workspace.MoveGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := workspace.MoveGrammar.ParseObjects(args)
			if err != nil {
				return err
			}
			if len(refs) != 2 || refs[0].Kind.Kind != "Cluster" || refs[1].Kind.Kind != cli.WorkspaceKind.Kind {
				return errors.New("want CLUSTER and WORKSPACE; also as cluster/NAME workspace/NAME")
			}
			o.Cluster, o.To, o.From = refs[0].Name, refs[1].Name, g.Namespace
			if o.Timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			return workspace.Act(cmd.Context(), &r, g, std, func(ctx context.Context, k workspace.Keepers) (string, error) { return k.Move(ctx, o) })
		},
	}
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "also if that removes what runs there")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", time.Minute, "wait so long until it is there at most; 0 does not wait")
	workspace.AddFlags(&r, cmd.Flags())
	return cmd
}
