package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/bundlediff"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const bundleDiffText = `Shows what differs on clusters from what was deployed there: fields that somebody has changed, objects that are gone.

Where the wanted version could not be applied, objects are compared with the version before it, and stderr says so.

With --fleet-yaml it prints how that can be ignored, as the part "diff" of fleet.yaml: paste it there, in the place of the one that stands there,
and commit. What the bundle ignores already is part of it. A field in a list is ignored together with the whole list. Objects that are gone are
left out unless --missing; what no comparePatch can ignore is named on stderr.

Of a cluster that is Offline it shows what differed at its last check-in, and stderr says so.

Exit codes: 0 nothing differs, or with --fleet-yaml all of it can be ignored; 2 there are differences; 6 nothing is known to differ, and a cluster is
Offline, or with --fleet-yaml: a part of it cannot be ignored.`

func newBundleDiffCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o bundlediff.Options
	cmd := &cobra.Command{
		Use: "bundlediff [BUNDLE [CLUSTER]]", Short: "Show what was changed on clusters, or ignore it", Long: bundleDiffText,
		Example:           "  fleet bundlediff\n  fleet bundlediff shop-web c3\n  fleet bundlediff shop-web c3 --fleet-yaml",
		ValidArgsFunction: g.CompleteObjects(std, cli.BundleGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Complete(args); err != nil {
				return err
			}
			connect := g.ConnectWithin
			if o.Deployment != "" {
				connect = g.Connect // -n may be the namespace of the BundleDeployment
			}
			s, err := connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.Watch {
				return bundlediff.Watch(cmd.Context(), o, s)
			}
			return bundlediff.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.Output.AddFlag(fs, bundlediff.Formats...)
	cli.NameVar(fs, &o.Bundle, "bundles", "bundle", "b", "only this `bundle`")
	fs.StringVar(&o.Deployment, "bundle-deployment", "", "only the BundleDeployment of this `name`; -n may be its namespace")
	cli.NameVar(fs, &o.Cluster, "clusters", "cluster", "", "only on this `cluster`")
	fs.BoolVar(&o.JSON, "json", false, "the same as -o json")
	fs.BoolVar(&o.FleetYAML, "fleet-yaml", false, "print comparePatches that ignore it")
	fs.BoolVar(&o.Missing, "missing", false, "with --fleet-yaml: ignore that objects are gone, too")
	fs.BoolVarP(&o.Watch, "watch", "w", false, "then print what changes, until interrupted")
	fs.BoolVar(&o.Bare, "no-headers", false, "no titles")
	g.CompleteObjectFlags(cmd, std)
	return cmd
}
