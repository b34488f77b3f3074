package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/target"
)

const targetText = `Shows what the manager would make of a Bundle: its Content, and for each cluster that it is meant for the BundleDeployment, with the Secret of
its Helm values, as they would be written. Nothing is written.

The clusters are those of the Bundle's workspace, or with --cluster-file those of a file, such as "fleet get clusters -o yaml" prints; it may
also hold ClusterGroups, BundleDeployments and Secrets. Then no cluster is needed at all.

All deployments are shown at once, however many are created together; other limits of the rollout hold, as far as what is there says something
about them. Why a cluster does not get the Bundle, or waits, is said on stderr. The output is what fleet deploy takes; it holds Secrets.`

func newTargetCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := target.Options{}
	cmd := &cobra.Command{
		Use: "target -b FILE", Short: "Show the deployments of a Bundle, and why clusters get none", Long: targetText, Args: cli.NoArguments,
		Example: `  fleet apply -n fleet-default -o web.yaml examples web && fleet target -b web.yaml
  fleet get clusters -n fleet-default -o yaml > clusters.yaml
  fleet target -b web.yaml --cluster-file clusters.yaml > deployments.yaml
  fleet target -b web.yaml -o json |
    jq -r '.clusters[] | select(.deploy | not) | .name + ": " + .reason'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return target.Run(cmd.Context(), g, o, std)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.BundleFile, "bundle-file", "b", "", "`file` with the Bundle; - is stdin")
	fs.StringVar(&o.ClusterFile, "cluster-file", "", "`file` with the Clusters, instead of a live cluster; - is stdin")
	fs.BoolVarP(&o.Dump, "dump-input-list", "l", false, "print on stderr the Clusters and ClusterGroups that targeting depends on, as YAML")
	o.Output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
	client.CompleteFiles(cmd, "bundle-file", "cluster-file")
	return cmd
}
