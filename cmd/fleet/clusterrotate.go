package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const clusterRotateText = `Gives the agent of a cluster another credential. The agent fetches the new one with the one that it has, tries it, and uses it; then the one before
and every token of it are void. Nothing that runs is touched, and no connection is cut.

An agent that is Offline takes the new credential when it is back (exit 6); until then the one before is good. Who fears that somebody else
uses an agent's credential at this moment does not rotate it, since he could fetch the new one as well: he revokes it, and lets the cluster
join again (docs/security.md).

The same is done by: kubectl annotate clusters.fleet.cattle.io NAME ` + fleet.AnnotationRotate + `=WORD`

func newClusterRotateCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o cluster.RotateOptions
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Give the agent of a cluster another credential", Long: clusterRotateText, Args: cluster.OneCluster,
		Example:           "  fleet cluster rotate -n fleet-default c1",
		ValidArgsFunction: g.CompleteObjects(std, cli.ClusterGrammar),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Name, err = cluster.NameOf(args); err != nil {
				return err
			}
			if o.Timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return cluster.Rotate(cmd.Context(), o, s)
		},
	}
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "wait so long for the agent at most; 0 is without end")
	cmd.Flags().BoolVar(&o.NoWait, "no-wait", false, "order it, and do not wait")
	return cmd
}
