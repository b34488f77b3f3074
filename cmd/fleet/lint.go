package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/lint"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/schemas"
)

const lintText = `Reads directories as a GitRepo would, and renders what it finds with Helm and kustomize for sample clusters: all mistakes that can be found before
a push, each with file and line. Everything is read, nothing stops at the first error. Paths are relative to the working directory.

Objects are checked against the schemas of Kubernetes and of the CRDs in the directories, in --crd-file, and with --server of a cluster: what an
agent is refused for unknown fields, wrong types and kinds that are not served is found here.

The sample clusters are made up, one for each selector in the bundles, or with --cluster-file those of a file, such as "fleet get clusters -o yaml"
prints. What fails only because a made-up cluster lacks something is a warning.

Charts are downloaded, unless --offline; nothing else is reached without --server: templates that look something up get nothing, host names are not resolved.
Exit code 4 says that there are errors; warnings alone give 0, unless --strict.`

func newLintCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	o := lint.Options{}
	cmd := &cobra.Command{
		Use: "lint [DIR...]", Short: "Find mistakes in directories before they are pushed", Long: lintText,
		Example: `  fleet lint
  fleet lint --strict --cluster-file clusters.yaml apps infra
  fleet lint --rule -impure --rule -unreachable apps
  fleet lint -o sarif apps > fleet.sarif`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dirs = args
			if err := o.Complete(os.Getenv); err != nil {
				return err
			}
			switch {
			case o.List:
				return lint.PrintRules(std)
			case o.Schema:
				_, err := printer.DocumentWriter(std.Out).Write(schemas.FleetYAML)
				return err
			}
			if err := o.AskServer(cmd.Context(), g, std); err != nil {
				return err
			}
			return lint.Run(cmd.Context(), o, std)
		},
	}
	o.AddFlags(cmd.Flags())
	client.CompleteFiles(cmd, "cluster-file", "crd-file", "password-file", "cacerts-file", "ssh-privatekey-file", "helm-credentials-by-path-file")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}
