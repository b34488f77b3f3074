package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/apply"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const applyText = `Reads directories as a GitRepo of that name would, and writes the Bundles that they make into a workspace, with your own rights; with -o it
prints them instead, needs no cluster and changes nothing.

PATH is relative to the working directory and may be a shell pattern; default: the working directory. What is wrong in a file is said on stderr,
with its place, as fleet lint says it; then nothing is printed or written, and the exit code is 4.

Bundles that carry the label fleet.cattle.io/repo-name=NAME and are not made any more are removed, after everything new was written: those above
the deletion budget, or with PersistentVolumeClaims, Namespaces or CustomResourceDefinitions, only with --approve (exit code 5). A Bundle that
belongs to another GitRepo or to a HelmOp, and a Secret that is not Fleet's, are not touched (exit code 5).

If NAME is a directory too and there is no PATH, nothing is written, and with -o a note says so: fleet apply NAME . takes the working directory.
A bundle that matches no cluster of the workspace is written, and a note says so.

With -f FILE, or as "fleet apply -" from stdin, one Bundle is written as it stands there, and nothing is removed.

Charts are downloaded as a GitRepo does it. Credentials are sent only to URLs that match --helm-repo-url-regex.`

func newApplyCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := apply.Options{}
	cmd := &cobra.Command{
		Use: "apply NAME [PATH...]", Short: "Make Bundles of directories, and write or print them", Long: applyText,
		Example: `  fleet apply -o - examples web settings
  fleet apply -n fleet-default -l team=shop examples web
  fleet apply -o bundles.json -n fleet-default --commit 3f9c2e1 examples
  fleet apply --username ci --password-file token \
    --helm-repo-url-regex 'https://charts\.example/' charts .
  fleet apply -o - examples web | fleet apply -n fleet-default -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(cmd.Flags(), args, os.Getenv); err != nil {
				return err
			}
			if o.File != "" {
				return apply.RunFile(cmd.Context(), g, o, std)
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			o.Bundle.Namespace = g.Namespace
			return apply.Run(cmd.Context(), g, o, std)
		},
	}
	o.AddFlags(cmd.Flags())
	client.CompleteFiles(cmd, "file", "bundle-file", "targets-file", "output", "password-file", "cacerts-file", "ssh-privatekey-file", "helm-credentials-by-path-file")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}
