package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/suspend"
)

const suspendText = `Holds back what is new for a repo, helmop, bundle or cluster, or with --all for the whole fleet. What is deployed goes on running,
is judged and kept from drifting.

--all puts a brake on that every manager loop obeys and every command shows until fleet resume --all.

Who suspended what, since when and why is shown by fleet status, fleet get and fleet explain.`

const resumeText = `Lets go on what fleet suspend has held back: a repo, helmop, bundle or cluster, or with --all the whole fleet.`

func newSuspendCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := suspend.Options{Suspend: true}
	cmd := &cobra.Command{
		Use: "suspend KIND/NAME...", Short: "Hold back what is new", Long: suspendText,
		Example: "  fleet suspend repo/shops -n fleet-default\n  fleet suspend --all --reason 'incident 4711'",
	}
	cmd.Flags().StringVar(&o.Reason, "reason", "", "why, for everybody to read; needed with --all")
	o.Complete(cmd, g, std)
	return cmd
}

func newResumeCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := suspend.Options{}
	cmd := &cobra.Command{Use: "resume KIND/NAME...", Short: "Go on with what was held back", Long: resumeText}
	o.Complete(cmd, g, std)
	return cmd
}
