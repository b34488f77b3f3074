package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/deploy"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const deployText = `Deploys a BundleDeployment from a file, as fleet target prints it, to the cluster of the kubeconfig: the way to a site that no manager can
reach. It becomes a Helm release with the marks of an agent, so that an agent that is installed there later takes it over as it is.

Content and Secret with values must be in the same file. Helm values that stand in the BundleDeployment itself are taken as well. Content that is kept
in an OCI registry is pulled from there, with the Secret for it that is in the file. What an agent does beyond that is left out: dependencies
are not waited for, downstreamResources not copied, and drift is not corrected.

With --dry-run the cluster is not asked and nothing is written; the objects are printed as they would be installed.`

func newDeployCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := deploy.Options{}
	cmd := &cobra.Command{
		Use: "deploy -i FILE", Short: "Deploy a BundleDeployment from a file, without a manager", Long: deployText, Args: cli.NoArguments,
		Example: `  fleet target -b web.yaml --cluster-file clusters.yaml > deployments.yaml
  fleet deploy -i deployments.yaml --cluster c1 --dry-run
  fleet deploy -i deployments.yaml --cluster c1 --kubeconfig site.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Input == "" {
				return errors.New("want -i FILE with Content and BundleDeployment; fleet target makes one")
			}
			if err := o.Output.CheckBefore(deploy.Deployed{}, printer.FormatJSON, printer.FormatYAML); err != nil {
				return err
			}
			if err := cli.CheckKubeVersion(o.KubeVersion); err != nil {
				return err
			}
			return deploy.Run(cmd.Context(), g, o, std)
		},
	}
	o.AddFlags(cmd.Flags())
	client.CompleteFiles(cmd, "input-file")
	return cmd
}
