package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/dryrun"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const testText = `Renders one directory for one cluster, without any cluster: what the agent there would install. The cluster is described by flags; without
any it is a member of cluster group default. What it says of targets, of values and of templates is what manager and agent would do.

The manager renders templates of values, ${ }, only for clusters with labels. For a cluster without labels they stay as they are, a warning says
so, and the exit code is 6: say labels with -l.

Nothing is looked up in a cluster, no host name is resolved, and values of helm.valuesFrom are missing. Charts are downloaded, unless --offline.

fleet target shows more than one cluster, and deployments as they are written.`

func newTestCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := dryrun.Options{}
	cmd := &cobra.Command{
		Use: "test [PATH]", Short: "Render a directory for one cluster, without a cluster", Long: testText, Args: cobra.MaximumNArgs(1),
		Example: `  fleet test web
  fleet test -l env=prod -N c1 web
  fleet test -t prod -o json web | jq .objects
  fleet test -q -g canary web`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = "."
			if len(args) == 1 {
				o.Dir = args[0]
			}
			if err := o.Complete(os.Getenv); err != nil {
				return err
			}
			return dryrun.Run(cmd.Context(), g, o, std)
		},
	}
	o.AddFlags(cmd.Flags())
	client.CompleteFiles(cmd, "file", "bundle-file", "password-file", "cacerts-file", "ssh-privatekey-file", "helm-credentials-by-path-file")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}
