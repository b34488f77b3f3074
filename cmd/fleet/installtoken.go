package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/install"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	planinstall "github.com/fleetworkspace/fleet/pkg/plan/install"
)

const installTokenText = `Makes a registration token in the workspace and prints what to apply to a new cluster, so that it joins:

  fleet install agent-token -n fleet-default > agent.yaml
  kubectl --context new apply -f agent.yaml

Any number of clusters may join with it until it ends, after a week unless --ttl says otherwise. Whoever has the file may ask to join: treat
it as a password. Address and certificate authority of the manager's API server are those of the kubeconfig.

With --group the manager gives clusters that join by this token the labels that the ClusterGroup's matchLabels ask for. The agent has no say
in it. A group that does not exist is made.`

func newInstallTokenCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o install.TokenOptions
	cmd := &cobra.Command{
		Use: "agent-token", Short: "Make a token and print an agent", Long: installTokenText, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ttl, err := planinstall.ParseLifetime(o.TTL)
			if err != nil {
				return fmt.Errorf("--ttl: %w", err)
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return install.Token(cmd.Context(), o, ttl, s)
		},
	}
	fs := cmd.Flags()
	o.Reach.AddFlags(fs)
	fs.StringVarP(&o.Group, "group", "g", "", "`name` of the ClusterGroup that clusters which join by this token belong to")
	fs.StringVarP(&o.TTL, "ttl", "t", "1w", "`time` until the token ends, such as 7d, 1w or 12h; 0: it never ends")
	fs.BoolVar(&o.TokenOnly, "token-only", false, "print the Secret with the token and nothing else")
	return cmd
}
