package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const workspaceText = `Shows workspaces, makes them, and moves clusters from one to another: through the Kubernetes API, or with --rancher through that of Rancher, which
then knows who has made a workspace, gives that person the rights of its owner, and checks what you may do.

--rancher alone takes address, certificate authority and token from a kubeconfig that Rancher has made (its server ends with /k8s/clusters/NAME);
--rancher=URL with --rancher-token-file, or with the environment's RANCHER_TOKEN_KEY, goes to another one.`

// keepers are who keeps workspaces: a Kubernetes API, or a Rancher.
type keepers interface {
	// list are all workspaces that the user may see, by name; with -n that one alone. It is
	// an error if there is no such workspace.
	list(ctx context.Context) ([]view.Workspace, error)
	// create makes a workspace, and says in one line what was made.
	create(ctx context.Context, o createOptions) (string, error)
	// move brings a cluster into another workspace, and says in one line what was
	// done.
	move(ctx context.Context, o moveOptions) (string, error)
	// address is where they are.
	address() string
}

func newWorkspaceCommand(g *globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace", Aliases: []string{"workspaces"}, Short: "Show and make workspaces, move clusters between them", Long: workspaceText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkspaceListCommand(g, std), newWorkspaceCreateCommand(g, std), newWorkspaceMoveCommand(g, std))
	return cmd
}

// ask is what a command does with the keepers that the flags name.
func (o *rancherOptions) ask(ctx context.Context, g *globals, std printer.Stdio) (keepers, time.Time, error) {
	if o.url == "" {
		if o.tokenFile != "" || o.caFile != "" {
			return nil, time.Time{}, errors.New("--rancher-token-file and --rancher-ca-file are for --rancher")
		}
		s, err := g.connect(ctx, std, true)
		if err != nil {
			return nil, time.Time{}, err
		}
		return &clusterStore{s}, s.now(), nil
	}
	r, err := g.openRancher(ctx, *o, std)
	if err != nil {
		return nil, time.Time{}, err
	}
	return &rancherKeeper{r}, g.now(), nil
}

const workspaceListText = `Shows all workspaces that you may see, with their clusters and bundles that are Ready, and who has made them.`

var workspaceFormats = []string{printer.FormatWide, printer.FormatName, printer.FormatJSON, printer.FormatYAML}

func newWorkspaceListCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	var r rancherOptions
	cmd := &cobra.Command{
		Use: "list", Short: "Show workspaces", Long: workspaceListText, Args: noArguments,
		Example: "  fleet workspace list\n  fleet workspace list --rancher",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(workspaceFormats...); err != nil {
				return err
			}
			k, now, err := r.ask(cmd.Context(), g, std)
			if err != nil {
				return err
			}
			return runWorkspaceList(cmd.Context(), o, k, std, now)
		},
	}
	o.AddFlag(cmd.Flags(), workspaceFormats...)
	r.addFlags(cmd.Flags())
	return cmd
}

var workspaceColumns = []printer.Column{
	{Title: "WORKSPACE"}, {Title: "CLUSTERS"}, {Title: "BUNDLES"}, {Title: "REPOS"}, {Title: "CREATOR", Drop: 2}, {Title: "AGE", Drop: 1}, {Title: "MESSAGE", Text: true},
}

// runWorkspaceList prints workspaces.
func runWorkspaceList(ctx context.Context, o printer.Output, k keepers, std printer.Stdio, now time.Time) error {
	found, err := k.list(ctx)
	if err != nil {
		return err
	}
	switch {
	case o == printer.FormatName:
		for _, w := range found {
			printer.Say(std.Out, "workspace/%s\n", w.Name)
		}
		return nil
	case o.Machine():
		return o.Print(std, WorkspaceList{Document: printer.NewDocument("WorkspaceList"), Server: k.address(), Workspaces: found}, false)
	case len(found) == 0:
		std.Note("no workspaces at %s that you may see", k.address())
		return nil
	}
	t := &printer.Table{Out: std.Out, Columns: workspaceColumns}
	if !o.Wide() {
		t.Width = std.Width()
	}
	rows := make([][]string, len(found))
	for i, w := range found {
		created := ""
		if w.Created != nil {
			created = view.Ago(*w.Created, now)
		}
		rows[i] = []string{w.Name, counts(&w.Clusters), counts(w.Bundles), amount(w.Repositories), dash(w.Creator), dash(created), w.Message}
	}
	t.Print(rows, false)
	return nil
}

// only are the workspaces with a name, all of them if that is empty.
func only(all []view.Workspace, name string) []view.Workspace {
	if name == "" {
		return all
	}
	return slices.DeleteFunc(all, func(w view.Workspace) bool { return w.Name != name })
}

// counts returns how many of all are Ready, or how many there are where no more is
// known.
func counts(c *view.Count) string {
	switch {
	case c == nil:
		return "-"
	case c.States == nil:
		return strconv.Itoa(c.Total)
	}
	return ready{c.States[fleet.Ready], c.Total}.String()
}

func amount(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// WorkspaceList is what fleet workspace list prints.
type WorkspaceList struct {
	printer.Document
	// Server is the address of the API server, or of Rancher.
	Server string `json:"server"`
	// Workspaces are in order of their names.
	Workspaces []view.Workspace `json:"workspaces"`
}

const workspaceCreateText = `Makes a workspace, where it is not there yet: a FleetWorkspace where Rancher's kinds are in the cluster, and waits until that has its namespace; else a
namespace alone.

Namespaces of the system are never workspaces. A namespace that is there already becomes one only with --existing, which asks for a right to it
that whoever may make workspaces need not have: it is for administrators.`

// createOptions are what a workspace is to be.
type createOptions struct {
	name     string
	existing bool
	timeout  time.Duration
}

func newWorkspaceCreateCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o createOptions
	var r rancherOptions
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a workspace", Long: workspaceCreateText, Args: oneWorkspace,
		Example: "  fleet workspace create team-a\n  fleet workspace create team-a --rancher",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if o.timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			return act(cmd.Context(), &r, g, std, func(ctx context.Context, k keepers) (string, error) { return k.create(ctx, o) })
		},
	}
	cmd.Flags().BoolVar(&o.existing, "existing", false, "let it have a namespace that is there already")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "wait so long for its namespace at most")
	r.addFlags(cmd.Flags())
	return cmd
}

func oneWorkspace(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the NAME of one workspace")
	}
	return nil
}

const workspaceMoveText = `Moves a cluster to another workspace. It keeps its identity and its agent; the new workspace's bundles are deployed to it, and what both deploy goes on
running. What the new workspace does not deploy is removed from the cluster after a while; where that is anything, the command says what and does
nothing without --yes. (Rancher's API does not tell, so that with --rancher nobody is asked.)

CLUSTER is the name of the Fleet Cluster, with -n WORKSPACE where there are several of that name; with --rancher also what Rancher calls it. The
cluster that the manager runs in is never moved.`

// moveOptions are which cluster is to go where.
type moveOptions struct {
	cluster, to string
	from        string // empty: wherever it is
	yes         bool
	timeout     time.Duration // 0: do not wait
}

// moveGrammar is a cluster, and a workspace.
var moveGrammar = grammar{kinds: append(grammarOf("clusters").kinds, workspaceKind), bare: append(grammarOf("clusters").kinds, workspaceKind)}

func newWorkspaceMoveCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o moveOptions
	var r rancherOptions
	cmd := &cobra.Command{
		Use: "move CLUSTER WORKSPACE", Short: "Move a cluster to another workspace", Long: workspaceMoveText,
		Example:           "  fleet workspace move c-12345 team-a\n  fleet workspace move -n fleet-default prod-eu team-a --rancher",
		ValidArgsFunction: g.completeObjects(std, moveGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := moveGrammar.objects(args)
			if err != nil {
				return err
			}
			if len(refs) != 2 || refs[0].kind.Kind != "Cluster" || refs[1].kind.Kind != workspaceKind.Kind {
				return errors.New("want CLUSTER and WORKSPACE; also as cluster/NAME workspace/NAME")
			}
			o.cluster, o.to, o.from = refs[0].name, refs[1].name, g.namespace
			if o.timeout < 0 {
				return errors.New("--timeout must not be below 0")
			}
			return act(cmd.Context(), &r, g, std, func(ctx context.Context, k keepers) (string, error) { return k.move(ctx, o) })
		},
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "also if that removes what runs there")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "wait so long until it is there at most; 0 does not wait")
	r.addFlags(cmd.Flags())
	return cmd
}

// act does one thing with the keepers, and prints what was done.
func act(ctx context.Context, r *rancherOptions, g *globals, std printer.Stdio, do func(context.Context, keepers) (string, error)) error {
	k, _, err := r.ask(ctx, g, std)
	if err != nil {
		return err
	}
	std.Note("%s", k.address())
	answer, err := do(ctx, k)
	if answer != "" {
		printer.Say(std.Out, "%s\n", answer)
	}
	return err
}

// addFlags adds the flags that lead to a Rancher.
func (o *rancherOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.url, "rancher", "", "ask Rancher at `URL`; without URL at that of the kubeconfig")
	fs.Lookup("rancher").NoOptDefVal = fromKubeconfig
	fs.StringVar(&o.tokenFile, "rancher-token-file", "", "`file` with a token (API key) of Rancher; - is stdin")
	fs.StringVar(&o.caFile, "rancher-ca-file", "", "PEM `file` with authorities for Rancher's certificate; default: those of the kubeconfig, or of the system")
}
