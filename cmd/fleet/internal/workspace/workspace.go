package workspace

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Keepers are who keeps workspaces: a Kubernetes API, or a Rancher.
type Keepers interface {
	// list are all workspaces that the user may see, by name; with -n that one alone. It is
	// an error if there is no such workspace.
	list(ctx context.Context) ([]view.Workspace, error)
	// Create makes a workspace, and says in one line what was made.
	Create(ctx context.Context, o CreateOptions) (string, error)
	// Move brings a cluster into another workspace, and says in one line what was
	// done.
	Move(ctx context.Context, o MoveOptions) (string, error)
	// Address is where they are.
	Address() string
}

// ConnectKeepers is what a command does with the keepers that the flags name.
func ConnectKeepers(ctx context.Context, o *rancher.Options, g *client.Globals, std printer.Stdio) (Keepers, time.Time, error) {
	if o.URL == "" {
		if o.TokenFile != "" || o.CAFile != "" {
			return nil, time.Time{}, errors.New("--rancher-token-file and --rancher-ca-file are for --rancher")
		}
		s, err := g.Connect(ctx, std, true)
		if err != nil {
			return nil, time.Time{}, err
		}
		return &clusterStore{s}, s.Now(), nil
	}
	r, err := rancher.Open(ctx, g, *o, std)
	if err != nil {
		return nil, time.Time{}, err
	}
	return &rancherAPI{r}, g.Now(), nil
}

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatName, printer.FormatJSON, printer.FormatYAML}

var workspaceColumns = []printer.Column{
	{Title: "WORKSPACE"}, {Title: "CLUSTERS"}, {Title: "BUNDLES"}, {Title: "REPOS"}, {Title: "CREATOR", Drop: 2}, {Title: "AGE", Drop: 1}, {Title: "MESSAGE", Text: true},
}

// List prints workspaces.
func List(ctx context.Context, o printer.Output, k Keepers, std printer.Stdio, now time.Time) error {
	found, err := k.list(ctx)
	if err != nil {
		return err
	}
	switch {
	case o == printer.FormatName:
		for _, w := range found {
			printer.Fprintf(std.Out, "workspace/%s\n", w.Name)
		}
		return nil
	case o.IsMachineReadable():
		return o.Print(std, WorkspaceList{Document: printer.NewDocument("WorkspaceList"), Server: k.Address(), Workspaces: found}, false)
	case len(found) == 0:
		std.Note("no workspaces at %s that you may see", k.Address())
		return nil
	}
	t := &printer.Table{Out: std.Out, Columns: workspaceColumns}
	if !o.IsWide() {
		t.Width = std.Width()
	}
	rows := make([][]string, len(found))
	for i, w := range found {
		created := ""
		if w.Created != nil {
			created = view.Ago(*w.Created, now)
		}
		rows[i] = []string{w.Name, readyText(&w.Clusters), readyText(w.Bundles), countOrUnknown(w.Repositories), printer.OrDash(w.Creator), printer.OrDash(created), w.Message}
	}
	t.Print(rows, false)
	return nil
}

// withName are the workspaces with a name, all of them if that is empty.
func withName(all []view.Workspace, name string) []view.Workspace {
	if name == "" {
		return all
	}
	return slices.DeleteFunc(all, func(w view.Workspace) bool { return w.Name != name })
}

// readyText returns how many of all are Ready, or how many there are where no more is
// known.
func readyText(c *view.Count) string {
	switch {
	case c == nil:
		return "-"
	case c.States == nil:
		return strconv.Itoa(c.Total)
	}
	return printer.Ready{Ready: c.States[fleet.Ready], All: c.Total}.String()
}

func countOrUnknown(n *int) string {
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

// CreateOptions are what a workspace is to be.
type CreateOptions struct {
	Name     string
	Existing bool
	Timeout  time.Duration
}

// OneWorkspace refuses arguments that are not the name of one workspace.
func OneWorkspace(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the NAME of one workspace")
	}
	return nil
}

// MoveOptions are which cluster is to go where.
type MoveOptions struct {
	Cluster, To string
	From        string // empty: wherever it is
	Yes         bool
	Timeout     time.Duration // 0: do not wait
}

// MoveGrammar is a cluster, and a workspace.
var MoveGrammar = cli.Grammar{Kinds: append(cli.GrammarOf("clusters").Kinds, cli.WorkspaceKind), Bare: append(cli.GrammarOf("clusters").Kinds, cli.WorkspaceKind)}

// Act does one thing with the keepers, and prints what was done.
func Act(ctx context.Context, r *rancher.Options, g *client.Globals, std printer.Stdio, do func(context.Context, Keepers) (string, error)) error {
	k, _, err := ConnectKeepers(ctx, r, g, std)
	if err != nil {
		return err
	}
	std.Note("%s", k.Address())
	answer, err := do(ctx, k)
	if answer != "" {
		printer.Fprintf(std.Out, "%s\n", answer)
	}
	return err
}

// AddFlags adds the flags that lead to a Rancher.
func AddFlags(o *rancher.Options, fs *pflag.FlagSet) {
	fs.StringVar(&o.URL, "rancher", "", "ask Rancher at `URL`; without URL at that of the kubeconfig")
	fs.Lookup("rancher").NoOptDefVal = rancher.FromKubeconfig
	fs.StringVar(&o.TokenFile, "rancher-token-file", "", "`file` with a token (API key) of Rancher; - is stdin")
	fs.StringVar(&o.CAFile, "rancher-ca-file", "", "PEM `file` with authorities for Rancher's certificate; default: those of the kubeconfig, or of the system")
}
