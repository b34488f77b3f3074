package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/wait"
)

const waitText = `Waits until a repo, helmop, bundle or cluster is Ready, and tells on stderr what happens meanwhile.

With --commit it waits until that commit was read, the bundles that it changed are Ready with it and those that it
removed are gone; @ is HEAD of the working copy here. It ends at once, with the cause, when something cannot become
Ready, or the repository cannot be read, without a change (exit 3), unless --keep-waiting. Clusters that are Offline are
not waited for (exit 6; --reachable makes that 0, --include-offline waits for them too).`

func newWaitCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := wait.Options{Settle: wait.SettleTime}
	cmd := &cobra.Command{
		Use: "wait KIND/NAME", Short: "Wait until something is Ready", Long: waitText,
		Example:           "  git push && fleet wait repo/examples --commit @ --timeout 2m",
		ValidArgsFunction: g.CompleteObjects(std, wait.Grammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Parse(args...); err != nil {
				return err
			}
			if o.Commit == "" && cmd.Flags().Changed("commit") {
				return errors.New("--commit is empty: want @, or at least 4 digits of a commit")
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			w, err := g.Watch(ctx, s, o.Selection())
			if err != nil {
				return err
			}
			return wait.Run(ctx, o, s, w)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, wait.Formats...)
	fs.StringVar(&o.Commit, "commit", "", "wait for this `commit`, whole or its first digits; @ is HEAD here")
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "wait so long at most; 0 is without end")
	fs.BoolVar(&o.Reachable, "reachable", false, "Offline clusters do not matter")
	fs.BoolVar(&o.All, "include-offline", false, "wait for Offline clusters too")
	cli.HiddenFlag(fs, "include-offline", "all", "")
	fs.BoolVar(&o.KeepWaiting, "keep-waiting", false, "go on when something cannot become Ready without a change")
	return cmd
}
