package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/dump"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

const dumpText = `Writes an archive for support, a tar.gz of YAML files: the objects of Fleet in a workspace, workloads, leases and logs of the manager's
namespaces, events, and metrics. The file manifest in it lists what was left out and why.

The archive never has data of Secrets, values of Helm charts, or credentials in URLs. Whatever cannot be read becomes a file errors_... in the
archive, and stderr says how many parts are missing. A file that exists is not overwritten.

Without -n and -A it is workspace fleet-local. With --gitrepo, --bundle or --helmop, which need -n, it is what belongs to that object.

Exit codes: 0 the archive is written, even if parts of it are missing; 1 it is not.`

func newDumpCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o dump.Options
	cmd := &cobra.Command{
		Use: "dump", Short: "Write an archive for support", Long: dumpText, Args: cli.NoArguments,
		Example: "  fleet dump -p fleet.tgz -A\n  fleet dump -p web.tgz -n fleet-default --gitrepo web --with-content-metadata",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Complete(g.Namespace, g.DefaultNamespace); err != nil {
				return err
			}
			a, err := g.Dial(std)
			if err != nil {
				return err
			}
			s := &client.Session{Access: a, Std: std, Now: g.Now, Scope: g.Namespace, System: g.System} // each request fails by itself
			return dump.Run(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.Path, "dump-path", "p", "", "write the archive to this `file`")
	fs.Int64VarP(&o.FetchLimit, "fetch-limit", "l", dump.DefaultFetchLimit, "list `N` objects at a time; 0: all at once")
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "all workspaces")
	cli.NameVar(fs, &o.GitRepo, "repos", "gitrepo", "", "only what belongs to this `repository`")
	cli.NameVar(fs, &o.Bundle, "bundles", "bundle", "", "only what belongs to this `bundle`")
	cli.NameVar(fs, &o.HelmOp, "helmops", "helmop", "", "only what belongs to this `HelmOp`")
	fs.BoolVar(&o.Secrets, "with-secrets", false, "metadata of Secrets, too; their data is never written")
	fs.BoolVar(&o.SecretsMetadata, "with-secrets-metadata", false, "also names, labels, types and sizes of Secrets")
	fs.BoolVar(&o.Content, "with-content", false, "also Contents, and the files of Bundles, with what was committed in them")
	fs.BoolVar(&o.ContentMetadata, "with-content-metadata", false, "also Contents without their content")
	g.CompleteObjectFlags(cmd, std)
	return cmd
}
