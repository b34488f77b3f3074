package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/approve"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const approveText = `A change that would remove more than the deletion budget, or any PersistentVolumeClaim, Namespace or CustomResourceDefinition of a bundle, waits
until a person says so: nothing of it is removed, all else goes on. Without arguments this lists what waits, in every workspace that you may list.

With KIND/NAME it shows what would be removed of a repo, helmop, bundle or cluster. It goes on with the HASH of that list, or whatever the list is with --yes. A
list that has changed since is another list: it has another HASH and is not approved (exit code 5).

A repo, bundle or cluster with the annotation ` + fleet.AnnotationProtect + ` that was deleted waits in the same way. What waits of a
helmop is listed at its bundle; helmop/NAME stands for that bundle.

workspace/NAME is about bundles that were deleted with their namespace or their kind: with the HASH what they deployed is removed, with --keep they go
and everything stays.

The same is done by: kubectl annotate gitrepo NAME ` + fleet.AnnotationApproveDeletion + `=HASH --overwrite`

func newApproveCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := approve.Options{}
	cmd := &cobra.Command{
		Use: "approve [KIND/NAME... [HASH]]", Short: "Let go on what would remove much", Long: approveText,
		Example: "  fleet approve\n  fleet approve -n fleet-default repo/shops\n  fleet approve -n fleet-default repo/shops 5a8c1f0e9d2b7c44",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			if len(o.Targets) > 0 {
				if err := g.Writing(cmd); err != nil {
					return err
				}
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if len(o.Targets) == 0 {
				return approve.ListHeld(cmd.Context(), o, s)
			}
			return approve.Run(cmd.Context(), o, s)
		},
	}
	o.Output.AddFlag(cmd.Flags(), cli.DocumentFormats...)
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "whatever the list is now")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "of workspace/NAME: let its deleted bundles go and keep all that they deployed")
	cmd.ValidArgsFunction = g.CompleteObjects(std, approve.Grammar)
	return cmd
}
