package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/explain"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const explainText = `Says why a bundle is not Ready on a cluster, or that it is. The first line is the whole answer; then the links from the source to
healthy objects, up to the first that stops it or waits, what runs meanwhile, and what helps.

A HelmOp, as helmop/NAME, stands for its bundle: then the answer also says why there is none, which version of the chart is deployed, and
when the manager asks for a newer one.

Without a cluster it has one line for each distinct answer, worst first. It reads what you may read: what is not yours to see is named, and
the other links are answered. With --watch it goes on until it is interrupted, and prints each new answer. It ends with 3 if the bundle is not Ready, or not known to be.`

func newExplainCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o explain.Options
	cmd := &cobra.Command{
		Use: "explain BUNDLE [CLUSTER]", Short: "Say why a bundle is not Ready on a cluster", Long: explainText,
		Example: `  fleet explain examples-web c3
  fleet explain examples-web
  fleet explain examples-web c3 -o jsonpath='{.stoppedAt} {.reason}'`,
		ValidArgsFunction: g.CompleteObjects(std, explain.Grammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args, g.Namespace); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, true)
			if err != nil {
				return err
			}
			if o.Watch {
				return explain.Watch(cmd.Context(), o, s)
			}
			return explain.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, explain.Formats...)
	fs.BoolVarP(&o.Watch, "watch", "w", false, "then print each new answer, until interrupted")
	fs.BoolVar(&o.All, "links", false, "all links, also where all is well")
	cli.HiddenFlag(fs, "links", "all", "")
	return cmd
}
