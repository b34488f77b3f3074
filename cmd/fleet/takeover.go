package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/takeover"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	plantakeover "github.com/fleetworkspace/fleet/pkg/plan/takeover"
)

const takeoverText = `Another manager of the same API, such as the reference's, and this one can work side by side: each object belongs to one of them, by its label
` + fleet.LabelShardRef + `. What has none is the default's, what names a shard is that of the manager that was started with --shard-id.

A takeover is made in steps, each of which can be undone: check, start for one repository, look, start for more; docs/takeover.md is the story.`

const takeoverMoveText = `It looks for the GitRepos, and the Bundles that are from none, that the selector matches, and labels each with all that belongs to it: the GitRepo,
its Bundles, their BundleDeployments. Nothing else is written, and what has the right label already is not written at all: after an interruption the
same command does the rest. What belongs to a third shard is left alone.`

func newTakeoverCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "takeover", Short: "Pass objects from one manager to another, step by step", Long: takeoverText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTakeoverCheckCommand(g, std), newTakeoverMoveCommand(g, std, false), newTakeoverMoveCommand(g, std, true))
	return cmd
}

func newTakeoverMoveCommand(g *client.Globals, std printer.Stdio, back bool) *cobra.Command {
	o := takeover.MoveOptions{Move: plantakeover.Move{Back: back}}
	cmd := &cobra.Command{
		Use: "start -l SELECTOR", Short: "Pass objects to the manager of a shard",
		Long: takeoverMoveText + "\n\nIt passes nothing to a shard without a running manager, unless --yes is given.", Args: cli.NoArguments,
		Example: "  fleet takeover check -n fleet-default\n  fleet takeover start -n fleet-default -l app=web\n  fleet takeover start -n fleet-default -l app=web --shard-id blue",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return takeover.Move(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	if back {
		cmd.Use, cmd.Short = "undo -l SELECTOR", "Give objects back to the default manager"
		cmd.Long, cmd.Example = takeoverMoveText, "  fleet takeover undo -n fleet-default -l app=web"
	} else {
		fs.BoolVarP(&o.Yes, "yes", "y", false, "although nobody works on the shard")
	}
	fs.StringVarP(&o.Selector, "selector", "l", "", "which GitRepos and Bundles, by their `labels`")
	fs.StringVar(&o.Move.Shard, "shard-id", plantakeover.DefaultShard, "`id` of the manager that this is about")
	o.Output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
	return cmd
}
