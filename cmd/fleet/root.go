package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

const rootText = `fleet looks at a fleet, waits for it, and tells it to stop and go on.

The answer goes to stdout, everything else to stderr. Commands that only look see every workspace that you may list; -n narrows.
Commands that write work in workspace fleet-local unless -n says otherwise, and refuse a name that other workspaces have.
Objects are named KIND/NAME or KIND NAME; NAME alone where a command is about one kind.

Exit codes: 0 yes, done; 1 the command could not do its work; 2 there are differences; 3 not Ready, or not in time;
4 the input has errors; 5 refused; 6 done where possible, the rest deferred or skipped; 130 interrupted.`

// newRootCommand is the whole command line, for the user's own environment.
func newRootCommand(std printer.Stdio) *cobra.Command { return command(newGlobals(std), std) }

// newGlobals reach the user's own environment.
func newGlobals(std printer.Stdio) *client.Globals {
	g := &client.Globals{DefaultNamespace: fleet.NamespaceLocal, Now: time.Now}
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		g.DefaultNamespace, g.Environment = ns, true
	}
	g.Plain = printer.PlainTerminal(os.Getenv)
	g.Dial, g.Random, g.Bring, g.Probe, g.Visit = g.Open, client.RandomWord, client.ApplyObjects, client.ProbeServer, client.VisitAddress
	g.Other = func(file, context string) (client.Access, error) { return client.OpenKubeconfig(std, file, context) }
	g.Watch = func(ctx context.Context, s *client.Session, of client.Selection) (client.FleetWatch, error) {
		return s.Watch(ctx, of)
	}
	return g
}

// command is the whole command line.
func command(g *client.Globals, std printer.Stdio) *cobra.Command {
	std = printer.Guard(std, &g.Answered, g.Colored)
	std.Err = printer.QuietableWriter(std.Err, &g.Quiet)
	debugLevel := 0
	root := &cobra.Command{
		Use: "fleet", Short: "GitOps for one Kubernetes cluster or a million", Long: rootText,
		SilenceErrors: true, SilenceUsage: true,
		Version: version.Version + " (" + version.Commit + ")",
		Args:    knownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckNamespaces(cmd.Flags()); err != nil {
				return err
			}
			g.Ran, g.Debug = true, g.Debug || debugLevel > 0
			return nil
		},
	}
	root.SetFlagErrorFunc(cli.UnknownFlag)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	fs := root.PersistentFlags()
	fs.StringVarP(&g.Kubeconfig, "kubeconfig", "k", "", "kubeconfig `file`; default: KUBECONFIG, ~/.kube/config, or a pod's own account")
	fs.StringVar(&g.Context, "context", "", "`name` of the kubeconfig's context")
	fs.StringVarP(&g.Namespace, "namespace", "n", "", "`workspace`; default: all for commands that look, fleet-local for those that write")
	fs.StringVar(&g.System, "system-namespace", client.DefaultSystemNamespace, "`namespace` of the manager")
	fs.Var(&g.Color, "color", "`when` states have colours: auto (on a terminal, unless NO_COLOR is set), always, never")
	fs.BoolVarP(&g.Quiet, "quiet", "q", false, "nothing on stderr but errors")
	fs.BoolVar(&g.Debug, "debug", false, "note every request on stderr")
	fs.IntVar(&debugLevel, "debug-level", 0, "1 or more is --debug")
	fs.Lookup("debug-level").Hidden = true // for command lines of rancher/fleet
	root.AddCommand(
		newLintCommand(g, std), newApplyCommand(g, std), newTestCommand(g, std), newTargetCommand(g, std), newDeployCommand(g, std),
		newStatusCommand(g, std), newGetCommand(g, std), newExplainCommand(g, std), newEventsCommand(g, std), newLogsCommand(g, std), newBundleDiffCommand(g, std), newWaitCommand(g, std),
		newSuspendCommand(g, std), newResumeCommand(g, std), newApproveCommand(g, std), newDeleteCommand(g, std),
		newInstallCommand(g, std), newClusterCommand(g, std), newWorkspaceCommand(g, std), newCheckCommand(g, std), newDumpCommand(g, std), newMonitorCommand(g, std), newAnalyzeCommand(g, std), newCleanupCommand(g, std), newTakeoverCommand(g, std), newVersionCommand(g, std),
	)
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil { // cobra's own takes any word for a shell
		c.Args, c.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	g.CompleteFlags(root, std)
	wrapHelp(root, std)
	return root
}

// otherTools are commands of kubectl, helm, flux and argocd that users try, with what does the
// same here.
var otherTools = map[string]string{
	"fleet sync":      syncText,
	"fleet reconcile": syncText,
	"fleet refresh":   syncText,
	"fleet rollback":  rollbackText,
	"fleet undo":      rollbackText,
	"fleet history":   "git log has the commits; fleet events repo/NAME says what became of them",
	"fleet diff": "git diff shows what a commit changes and fleet test what a directory deploys; " +
		"fleet bundlediff shows what was changed on the clusters",
	"fleet describe":         "fleet explain BUNDLE [CLUSTER] says how it is and why, fleet events KIND/NAME what has happened",
	"fleet gitcloner":        "fleet-controller gitcloner REPO PATH does this",
	"fleet migrate":          "nothing is to be migrated: gitjob sets helmRepoURLRegex of GitRepos that an older Fleet has read",
	"fleet cluster delete":   forgetText,
	"fleet cluster remove":   forgetText,
	"fleet cluster add":      joinText,
	"fleet cluster register": joinText,
}

const (
	syncText = "the manager reads each repository by itself, and fleet wait repo/NAME --commit @ waits for it; " +
		"to have the same commit deployed again, raise spec.forceSyncGeneration of the GitRepo"
	rollbackText = "the repository decides: git revert and git push; fleet suspend repo/NAME holds back what is new meanwhile"
	forgetText   = "fleet cluster forget NAME lets a cluster go; what runs there stays"
	joinText     = "fleet cluster join NAME lets a new cluster in"
)

// knownCommand refuses a word that is no command, and names the nearest one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if text := otherTools[cmd.CommandPath()+" "+args[0]]; text != "" {
		return fmt.Errorf("no command %q: %s", args[0], text)
	}
	if near := spelling.Nearest(args[0], names); near != "" {
		return fmt.Errorf("no command %q; did you mean %q?", args[0], near)
	}
	return fmt.Errorf("no command %q; %s --help lists them", args[0], cmd.CommandPath())
}
