package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/deletion"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const deleteText = `Deletes a repo, a helmop or a bundle, and with it everything that it has deployed. It first lists what goes, and asks; --yes answers the question.

A list that is above the deletion budget, or that has a PersistentVolumeClaim, Namespace or CustomResourceDefinition, needs more than --yes: the first
call deletes nothing and prints the HASH of the list (exit code 5); a second call with that HASH as last argument deletes it. If the list has
changed in between, its HASH is another one, and nothing is deleted (exit code 5).

With --keep the workloads stay on the clusters, no longer managed: it sets keepResources, waits until the agent of every cluster has it, and then
deletes the repo, helmop or bundle. It takes no HASH, since nothing is removed from a cluster.

A bundle that a GitRepo writes comes back as long as the repository has its files: remove them there, or delete the repo. The bundle of a HelmOp comes
back until the helmop is deleted; --keep refuses such a bundle.

It waits until the object is gone, at most --timeout; --wait=false does not wait.

kubectl delete does the same without a question, and the deletion budget does not count there. What bears the annotation
` + fleet.AnnotationProtect + ` is not deleted by this command, and held when kubectl deletes it.`

func newDeleteCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := deletion.Options{}
	cmd := &cobra.Command{
		Use: "delete KIND/NAME [HASH]", Short: "Delete a repo, helmop or bundle, after showing what goes with it", Long: deleteText,
		Example:           "  fleet delete -n fleet-default repo/shops\n  fleet delete -n fleet-default repo/shops 5a8c1f0e9d2b7c44\n  fleet delete -n fleet-default helmop/redis\n  fleet delete -n fleet-default bundle/web --keep --yes",
		ValidArgsFunction: g.CompleteObjects(std, deletion.Deletable),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := deletion.OtherKindError(args, g.Namespace); err != nil {
				return err
			}
			if err := o.Complete(args); err != nil {
				return err
			}
			if err := g.Writing(cmd); err != nil {
				return err
			}
			s, err := g.ConnectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return deletion.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, cli.DocumentFormats...)
	fs.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	fs.BoolVar(&o.Keep, "keep", false, "leave the workloads on the clusters: set keepResources, then delete; without HASH")
	fs.BoolVar(&o.Wait, "wait", true, "wait until it is gone")
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "wait so long at most")
	return cmd
}
