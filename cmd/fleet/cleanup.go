package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cleanup"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const cleanupText = `Deletes what a manager of rancher/fleet (the reference) has left behind. It deletes only objects with the reference's own marks: objects of users and
of this project's managers stay.

The commands work in all workspaces, as in the reference; -n narrows. --dry-run shows what they would delete.`

const cleanupRegistrationText = `Deletes ClusterRegistrations that are older than the newest granted one of the same Cluster, and those whose Cluster is gone. It also deletes the
ServiceAccounts, Roles and bindings that the reference made for registrations that do not exist any more.

A Cluster whose agent has an account of this project's manager is left to that manager. If a list cannot be read, nothing is deleted.`

const cleanupGitJobText = `Deletes the Jobs of GitRepos that have succeeded.

If no manager of the reference runs in the system namespace, it also deletes the Jobs of GitRepos that have failed, the ServiceAccounts, Roles and
RoleBindings of these Jobs, and the Jobs and the CronJob of the reference's chart. A Job that runs stays, with its account.`

func newCleanupCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Delete what a manager of the reference has left behind", Long: cleanupText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCleanupRegistrationCommand(g, std), newCleanupGitJobCommand(g, std))
	return cmd
}

func newCleanupRegistrationCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := cleanup.RegistrationOptions{}
	cmd := &cobra.Command{
		Use: "clusterregistration", Short: "Delete outdated registrations, and what was made for them", Long: cleanupRegistrationText, Args: cli.NoArguments,
		Example: "  fleet cleanup clusterregistration --dry-run\n  fleet cleanup clusterregistration --min 10ms --max 3s --factor 1.05",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			s, err := g.Connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return cleanup.Registrations(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.Pace.Min, "min", 10*time.Millisecond, "wait so long after the first deletion")
	fs.DurationVar(&o.Pace.Max, "max", 3*time.Second, "wait so long at most between two deletions")
	fs.Float64Var(&o.Pace.Factor, "factor", 1.05, "wait so many times longer after each deletion")
	addCleanupFlags(cmd, &o.Options)
	return cmd
}

func newCleanupGitJobCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := cleanup.JobOptions{}
	cmd := &cobra.Command{
		Use: "gitjob", Short: "Delete Jobs that have read a GitRepo", Long: cleanupGitJobText, Args: cli.NoArguments,
		Example: "  fleet cleanup gitjob --dry-run\n  fleet cleanup gitjob -n fleet-default",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			s, err := g.Connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return cleanup.Jobs(cmd.Context(), o, s)
		},
	}
	cmd.Flags().IntVar(&o.BatchSize, "batch-size", 5000, "read so many Jobs with one request")
	addCleanupFlags(cmd, &o.Options)
	return cmd
}

func addCleanupFlags(cmd *cobra.Command, o *cleanup.Options) {
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be deleted, and delete nothing")
	o.Output.AddFlag(cmd.Flags(), printer.FormatJSON, printer.FormatYAML)
}
