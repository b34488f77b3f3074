package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const clusterAgentsText = `Shows how far the manager is with updating the agents of its clusters.

Agents are updated in waves. A wave is over when all agents in it have checked in with the new version, and what they deploy is as ready as before; then the
next one begins, at most as large as all before it together. If more than one agent is not well after 10 minutes, no further one is updated until they are, or
until somebody calls the version back: fleet cluster agents rollback. A cluster with label fleet.cattle.io/non-managed-agent is left out.

Exit codes: 0 it could be told; with --exit-code also 3: the update is halted, or not all agents are up to date.`

const clusterAgentsRollbackText = `Calls the version of the agents back that the manager wants: all agents that have it return to the one they had, at once, and no other gets it. This counts until
the manager wants another version, or until fleet cluster agents resume.`

const clusterAgentsResumeText = `Takes back what fleet cluster agents rollback has said: agents are updated again, in waves.`

func newClusterAgentsCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o cluster.AgentsOptions
	cmd := &cobra.Command{
		Use: "agents", Short: "Show how far the agents are updated; rollback, resume", Long: clusterAgentsText, Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.AboutAgents(cmd.Context(), g, std, o, cluster.Agents)
		},
	}
	o.Output.AddFlag(cmd.Flags(), cli.DocumentFormats...)
	cmd.Flags().BoolVar(&o.ExitCode, "exit-code", false, "end with 3 if the update is halted or not all agents are up to date")
	var back, on cluster.AgentsOptions
	rollback := &cobra.Command{
		Use: "rollback", Short: "Return to the version that agents had", Long: clusterAgentsRollbackText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.AboutAgents(cmd.Context(), g, std, back, cluster.RollbackAgents)
		},
	}
	back.Output.AddFlag(rollback.Flags(), cli.DocumentFormats...)
	rollback.Flags().StringVar(&back.To, "to", "", "`image` for agents that had no other before; default: what most of them had")
	rollback.Flags().StringVar(&back.Reason, "reason", "", "why, for everybody to read")
	resume := &cobra.Command{
		Use: "resume", Short: "Update agents again", Long: clusterAgentsResumeText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.AboutAgents(cmd.Context(), g, std, on, cluster.ResumeAgents)
		},
	}
	on.Output.AddFlag(resume.Flags(), cli.DocumentFormats...)
	cmd.AddCommand(rollback, resume)
	return cmd
}
